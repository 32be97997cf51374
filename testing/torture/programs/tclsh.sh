exec tclsh work.tcl
