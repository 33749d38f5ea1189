# responder.pl PORTS ADDRESSES: endpoints of one machine, in its network namespace. At each of the ports they
# answer "<own address> <own port> <peer address>", and TCP then ends the connection: TCP at every address,
# UDP at the given addresses. Both lists have commas. Prints "listens" when all do. It is Perl because a lab
# has eight of these, and Node takes 50 times as long to start.
use strict;
use warnings;
use Fcntl qw(F_SETFL O_NONBLOCK);
use Socket qw(:DEFAULT IPPROTO_IPV6 IPV6_V6ONLY inet_ntop inet_pton pack_sockaddr_in6 unpack_sockaddr_in6);

$SIG{PIPE} = 'IGNORE';
my @ports = split /,/, $ARGV[0];
my @addresses = split /,/, $ARGV[1];

# Sockets and what to do when they can be read, by file descriptor. $readable has their bits.
my (@sockets, @handlers);
my $readable = '';

sub watch {
  my ($socket, $handler) = @_;
  my $number = fileno $socket;
  ($sockets[$number], $handlers[$number]) = ($socket, $handler);
  vec($readable, $number, 1) = 1;
}

sub forget {
  my $number = fileno shift;
  vec($readable, $number, 1) = 0;
  close $sockets[$number];
  ($sockets[$number], $handlers[$number]) = ();
}

sub packed {
  my ($address, $port) = @_;
  return $address =~ /:/
    ? pack_sockaddr_in6($port, inet_pton(AF_INET6, $address))
    : pack_sockaddr_in($port, inet_pton(AF_INET, $address));
}

# A dual-stack socket shows IPv4 peers with a prefix.
sub address_of {
  my $name = shift;
  return inet_ntop(AF_INET, (unpack_sockaddr_in($name))[1]) if sockaddr_family($name) == AF_INET;
  my $address = inet_ntop(AF_INET6, (unpack_sockaddr_in6($name))[1]);
  $address =~ s/^::ffff:(?=\d+\.)//;
  return $address;
}

sub bound {
  my ($address, $port, $type) = @_;
  my $domain = $address =~ /:/ ? AF_INET6 : AF_INET;
  socket(my $socket, $domain, $type, 0) or die "socket: $!";
  setsockopt($socket, SOL_SOCKET, SO_REUSEADDR, 1) if $type == SOCK_STREAM;
  setsockopt($socket, IPPROTO_IPV6, IPV6_V6ONLY, 0) if $address eq '::';
  bind($socket, packed($address, $port)) or die "bind $address $port: $!";
  fcntl($socket, F_SETFL, O_NONBLOCK);
  return $socket;
}

sub serve_tcp {
  my $port = shift;
  my $server = bound('::', $port, SOCK_STREAM);
  listen($server, 1024) or die "listen: $!";
  watch($server, sub {
    for (;;) {
      my $peer = accept(my $connection, $server) or last;
      fcntl($connection, F_SETFL, O_NONBLOCK);
      # A client may reset a connection that it no longer needs.
      my $own = getsockname($connection);
      send($connection, address_of($own) . " $port " . address_of($peer) . "\n", 0) if $own;
      shutdown($connection, 1);
      # Closed before the client has closed it, it would reset a client that sends.
      watch($connection, sub {
        my $length = sysread($connection, my $ignored, 65_536);
        forget($connection) if defined $length ? $length == 0 : !$!{EAGAIN};
      });
    }
  });
}

# A socket without an address would answer from the address that routing selects.
sub serve_udp {
  my ($address, $port) = @_;
  my $socket = bound($address, $port, SOCK_DGRAM);
  watch($socket, sub {
    while (defined(my $peer = recv($socket, my $ignored, 65_536, 0))) {
      send($socket, "$address $port " . address_of($peer), 0, $peer);
    }
  });
}

serve_tcp($_) for @ports;
for my $address (@addresses) { serve_udp($address, $_) for @ports }
$| = 1;
print "listens\n";

for (;;) {
  my $count = select(my $ready = $readable, undef, undef, undef);
  next if $count <= 0;
  my $bits = unpack('b*', $ready);
  my $number = -1;
  while (($number = index($bits, '1', $number + 1)) >= 0) { $handlers[$number]->() if $handlers[$number] }
}
