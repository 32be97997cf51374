use strict; use warnings; use Digest::SHA qw(sha256_hex); use List::Util qw(sum reduce); use POSIX ();
my $seed = 1; sub rnd { $seed = ($seed * 1103515245 + 12345) & 0x7fffffff; return $seed; }
for my $turn (1 .. 4) {
    my %count; my $text = join ' ', map { ('alpha', 'beta', 'gamma7', 'delta-9')[rnd() % 4] . (rnd() % 100) } 1 .. 40000;
    $count{$1}++ while $text =~ /\b([a-z]+)[-\d]*/g;
    print join(',', map { "$_=$count{$_}" } sort keys %count), "\n";
    my @sorted = sort { $b->{k} <=> $a->{k} || $a->{n} cmp $b->{n} } map { { k => rnd() % 1000, n => "n" . rnd() } } 1 .. 30000;
    print sha256_hex(join '', map { "$_->{k}$_->{n}" } @sorted), "\n";
    my $died = 0;
    for my $i (1 .. 20000) { eval { die { code => $i } if $i % 3; 1 } or $died += $@->{code}; }
    print "$died\n";
    sub fib { my $n = shift; return $n < 2 ? $n : fib($n - 1) + fib($n - 2); } print fib(19), "\n";
    (my $t = $text) =~ s/(\d+)/sprintf '%x', $1/ge; $t =~ tr/a-y/b-z/; print sha256_hex($t), "\n";
    local $SIG{ALRM} = sub { $died = -1 }; POSIX::alarm(0);
    my $pid = fork // die; if (!$pid) { print STDERR "child\n"; exit 7 } waitpid $pid, 0; print $? >> 8, "\n";
    print join(' ', map { my $o = `echo $_`; chomp $o; $o * 2 } 1 .. 5), "\n";
    printf "%.12g %s\n", (sum map { sqrt $_ } 1 .. 50000), pack('N*', map { rnd() } 1 .. 3) =~ tr/\x80-\xff//;
}
