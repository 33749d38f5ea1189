// Sends echo requests and waits for their answers.
import { execFile } from "node:child_process";

/**
 * Sends one echo request, and prints the address of the answer, `refused` for an ICMP error about the request
 * or one that the kernel refuses to send, or `timeout`. It is in Perl, because Node.js has no raw sockets,
 * and perl-base is part of every Debian. Sources: RFC 792, RFC 4443; the kernel fills in ICMPv6's checksum.
 */
const PING = `
  use Socket qw(:DEFAULT inet_pton inet_ntop pack_sockaddr_in6 unpack_sockaddr_in6);
  my ($to, $id, $wait, $from) = @ARGV;
  my $is6 = $to =~ /:/;
  my ($family, $request, $reply, $error) = $is6 ? (AF_INET6, 128, 129, 1) : (AF_INET, 8, 0, 3);
  sub place { my $at = inet_pton($family, shift); $is6 ? pack_sockaddr_in6(0, $at) : pack_sockaddr_in(0, $at) }
  sub without_ip { my $bytes = shift; $is6 ? $bytes : substr($bytes, 4 * (15 & ord $bytes)) }
  socket(my $socket, $family, SOCK_RAW, $is6 ? 58 : 1) or die "$!";
  bind($socket, place($from)) or die "$!" if defined $from;
  my $packet = pack("CCnnna8", $request, 0, 0, $id, 1, "nftproxy");
  my $sum = unpack("%32n*", $packet);
  $sum = ($sum & 0xffff) + ($sum >> 16) while $sum >> 16;
  substr($packet, 2, 2) = pack("n", 0xffff & ~$sum);
  defined send($socket, $packet, 0, place($to)) or do { print "refused"; exit };
  while ($wait > 0) {
    vec(my $ready = "", fileno $socket, 1) = 1;
    (my $found, $wait) = select($ready, undef, undef, $wait);
    last unless $found;
    my $sender = recv($socket, my $bytes, 1500, 0);
    my ($type, $of) = unpack("Cx3n", my $icmp = without_ip($bytes));
    my $source = inet_ntop($family, $is6 ? (unpack_sockaddr_in6($sender))[1] : (unpack_sockaddr_in($sender))[1]);
    if ($type == $reply && $of == $id) { print $source; exit }
    my $about = substr($icmp, $is6 ? 48 : 8);
    if ($type == $error && $id == unpack("x4n", $is6 ? $about : without_ip($about))) { print "refused"; exit }
  }
  print "timeout";
`;

let sent = 0;

/**
 * Pings an address, each time with another id.
 * @returns `<answering address> 0 kept`, `refused` or `timeout`
 */
export function ping({ to, from, waitMs }) {
  const id = (process.pid + 256 * sent++) % 65_536;
  const own = from === undefined ? [] : [from];
  return new Promise((resolve, reject) => {
    execFile("perl", ["-e", PING, to, id, waitMs / 1000, ...own].map(String), (error, stdout) => {
      if (error) reject(error);
      else resolve(/[.:]/.test(stdout) ? `${stdout} 0 kept` : stdout);
    });
  });
}
