# Many short connections, for which Node.js is too slow:
#   serve ADDRESS PORT                            accepts TCP connections and closes them
#   tcp|udp ADDRESS PORT PER-SECOND SECONDS       makes connections, each from another address; UDP sends one
#                                                 packet. Prints how many were made in how many seconds, how
#                                                 many failed, and in seconds the CPU time and how long one
#                                                 took, from its socket to its end: the median, the 99th of
#                                                 100 and the longest
use strict;
use warnings;
use Socket;
use Time::HiRes qw(time sleep);

my ($mode, @arguments) = @ARGV;
if ($mode eq 'serve') {
    socket(my $server, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
    setsockopt($server, SOL_SOCKET, SO_REUSEADDR, 1);
    bind($server, pack_sockaddr_in($arguments[1], inet_aton($arguments[0]))) or die "bind: $!";
    listen($server, 4096) or die "listen: $!";
    $| = 1;
    print "ready\n";
    while (accept(my $connection, $server)) { close $connection }
    exit;
}

my ($address, $port, $rate, $seconds) = @arguments;
my $to = pack_sockaddr_in($port, inet_aton($address));
my ($made, $failed, $started) = (0, 0, time);
my @took;
while ((my $passed = time - $started) < $seconds) {
    sleep 0.001 if $made >= $passed * $rate;
    for (; $made < $passed * $rate; $made++) {
        my $began = time;
        socket(my $client, PF_INET, $mode eq 'udp' ? SOCK_DGRAM : SOCK_STREAM, 0) or die "socket: $!";
        # Addresses of pods that are no endpoints.
        my $from = pack('C4', 10, 224 + ($made >> 16 & 15), $made >> 8 & 255, $made & 255);
        bind($client, pack_sockaddr_in(0, $from)) or die "bind: $!";
        if ($mode eq 'udp') {
            defined send($client, 'x', 0, $to) or $failed++;
        } elsif (connect($client, $to)) {
            sysread($client, my $end, 1);
        } else {
            $failed++;
        }
        close $client;
        push @took, time - $began;
    }
}
my ($user, $system) = times;
my $ended = time;
@took = sort { $a <=> $b } @took;
printf "%d %.3f %d %.3f %.6f %.6f %.6f\n", $made, $ended - $started, $failed, $user + $system,
    map { $took[$#took * $_] } 0.5, 0.99, 1;
