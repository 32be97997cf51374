proc fib n { if {$n < 2} { return $n }; return [expr {[fib [expr {$n-1}]] + [fib [expr {$n-2}]]}] }
proc words n { set out {}; for {set i 0} {$i < $n} {incr i} { lappend out [format "w%05d" [expr {($i*7919)%10007}]] }; return $out }
for {set turn 0} {$turn < 3} {incr turn} {
  puts [fib 20]
  set list [lsort -unique [words 60000]]; puts "[llength $list] [lindex $list 77]"
  set caught 0
  for {set i 0} {$i < 30000} {incr i} { if {[catch {error "e$i"} message]} { incr caught [string length $message] } }
  puts $caught
  set text [join $list " "]; puts [regexp -all {w0(\d)\d} $text]; puts [string length [regsub -all {(\d)} $text {<\1>}]]
  dict for {k v} [dict create a 1 b 2] { puts "$k $v" }
  coroutine walk apply {{} { yield; for {set i 0} {$i < 20000} {incr i} { yield $i }; return end }}
  set sum 0; while {[set v [walk]] ne "end"} { incr sum $v }; puts $sum
  puts [expr {2**2000 % 1000000007}]; puts [exec echo [clock format 0 -gmt 1]]
  after 5 { set ::go $turn }; vwait go; puts [binary encode base64 [string repeat abc 10]]
}
