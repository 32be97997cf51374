! Loops of Fortran; `fstep` is called once in each iteration. As in far.c.
module params
  implicit none
  integer :: nsteps, it_mod
  integer, save :: nstart = 1
  real(8) :: field(64) = 0, t_end, dt = 0.25d0
  integer(8) :: nlong
  type run_t
    integer :: nt, it
    real(8) :: t
  end type
  type(run_t) :: run
  interface
    subroutine fstep(i) bind(C, name='fstep')
      integer :: i
    end subroutine
    subroutine fwork(a, n) bind(C, name='fwork')
      real(8) :: a(*)
      integer :: n
    end subroutine
    subroutine fget(a, n) bind(C, name='fget')
      integer :: a, n
    end subroutine
    function fres() bind(C, name='residual')
      real(8) :: fres
    end function
  end interface
end module
subroutine plain_up(n) bind(C); use params; integer, value :: n; integer :: i; do i = 1, n; call fstep(i); end do; end
subroutine plain_zero(n) bind(C); use params; integer, value :: n; integer :: i; do i = 0, n - 1; call fstep(7); end do; end
subroutine plain_down(n) bind(C); use params; integer, value :: n; integer :: i; do i = n, 1, -1; call fstep(i); end do; end
subroutine plain_two(n) bind(C); use params; integer, value :: n; integer :: i; do i = 1, 2*n, 2; call fstep(i); end do; end
subroutine plain_step_var(n) bind(C); use params; integer, value :: n; integer :: i, k; call fget(k, 3); do i = 1, 3*n, k; call fstep(i); end do; end
subroutine plain_long(n) bind(C); use params; integer, value :: n; integer(8) :: i; nlong = n; do i = 1, nlong; call fstep(7); end do; end
subroutine plain_module(n) bind(C); use params; integer, value :: n; integer :: i; nsteps = n; do i = 1, nsteps; call fstep(i); end do; end
subroutine other_module_counter(n) bind(C); use params; integer, value :: n; do it_mod = 1, n; call fstep(7); end do; end
subroutine other_module_counter_lent(n) bind(C); use params; integer, value :: n; do it_mod = 1, n; call fstep(it_mod); end do; end
subroutine plain_derived(n) bind(C); use params; integer, value :: n; integer :: i; run%nt = n; do i = 1, run%nt; call fstep(i); end do; end
subroutine plain_while(n) bind(C); use params; integer, value :: n; integer :: i; i = 0; do while (i < n); i = i + 1; call fstep(7); end do; end
subroutine plain_while_last(n) bind(C); use params; integer, value :: n; integer :: i; i = 1; do while (i <= n); call fstep(7); i = i + 1; end do; end
subroutine plain_while_lent(n) bind(C); use params; integer, value :: n; integer :: i; i = 1; do while (i <= n); call fstep(i); i = i + 1; end do; end
subroutine other_time(n) bind(C); use params; integer, value :: n; real(8) :: t; t = 0; t_end = n * dt; do while (t < t_end); call fstep(7); t = t + dt; end do; end
subroutine exits_exit(n) bind(C); use params; integer, value :: n; integer :: i; do i = 1, 2 * n; call fstep(i); if (i == n) exit; end do; end
subroutine plain_forever(n) bind(C); use params; integer, value :: n; integer :: i; i = 0; do; i = i + 1; call fstep(7); if (i >= n) exit; end do; end
subroutine plain_forever_top(n) bind(C); use params; integer, value :: n; integer :: i; i = 0; do; if (i >= n) exit; i = i + 1; call fstep(7); end do; end
subroutine exits_converge(n) bind(C); use params; integer, value :: n; integer :: i; i = 0; do while (fres() > 1d-6 .and. i < n); i = i + 1; call fstep(7); end do; end
subroutine exits_converge_do(n) bind(C); use params; integer, value :: n; integer :: i; do i = 1, n; call fstep(i); if (fres() < 1d-6) exit; end do; end
subroutine plain_restart(n) bind(C); use params; integer, value :: n; integer :: i; nstart = n / 4 + 1; do i = nstart, n; call fstep(i); end do; end
subroutine plain_restart_rel(n) bind(C); use params; integer, value :: n; integer :: i, k; call fget(k, 5); do i = k + 1, k + n; call fstep(i); end do; end
subroutine plain_cycle(n) bind(C); use params; integer, value :: n; integer :: i; do i = 1, n; call fstep(i); if (mod(i, 3) == 0) cycle; call fwork(field, i); end do; end
subroutine plain_every(n) bind(C); use params; integer, value :: n; integer :: i; do i = 1, n; call fstep(i); if (mod(i, 10) == 0) call fwork(field, i); if (i == n) call fwork(field, n); end do; end
subroutine plain_arrays(n) bind(C); use params; integer, value :: n; integer :: i, k; real(8) :: a(64); a = 1; do i = 1, n; do k = 2, 63; a(k) = 0.5d0 * (a(k-1) + a(k+1)); end do; field = field + a; call fwork(a, i); call fstep(i); end do; end
subroutine plain_print(n) bind(C); use params; integer, value :: n; integer :: i; character(20) :: s; do i = 1, n; call fstep(i); write(s, '(i8)') i; end do; end
subroutine plain_goto(n) bind(C); use params; integer, value :: n; integer :: i; i = 1; 10 continue; call fstep(7); i = i + 1; if (i <= n) goto 10; end
subroutine plain_constant(n) bind(C); use params; integer, value :: n; integer, parameter :: nt = 25; integer :: i; do i = 1, nt; call fstep(7); end do; end
subroutine plain_first(n) bind(C); use params; integer, value :: n; integer :: i; do i = 1, n; if (i == 1) call fwork(field, 3); call fstep(i); end do; end
subroutine plain_minval(n) bind(C); use params; integer, value :: n; integer :: i; do i = 1, min(n, 1000); call fstep(i); end do; end
subroutine plain_nested(n) bind(C); use params; integer, value :: n; integer :: i, k; do i = 1, n; do k = 1, 1; call fstep(i); end do; call fwork(field, i); end do; end
subroutine hop(i) bind(C); integer :: i; if (i == 5) i = i + 2; end
subroutine leave(i) bind(C); integer :: i; interface; subroutine hop(i) bind(C); integer :: i; end; end interface; call hop(i); end
subroutine other_while_moved(n) bind(C); use params; integer, value :: n; integer :: i; interface; subroutine leave(i) bind(C); integer :: i; end; end interface; i = 1; do while (i <= n); call fstep(i); call leave(i); i = i + 1; end do; end
subroutine other_bound_moved(n) bind(C); use params; integer, value :: n; integer :: i, m; interface; subroutine leave(i) bind(C); integer :: i; end; end interface; m = n; i = 0; do while (i < m); call fstep(i); call leave(m); if (i == 7) m = m - 1; i = i + 1; end do; end
