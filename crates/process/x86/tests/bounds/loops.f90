! Loops of Fortran, which count by themselves: the number of passes is fixed when they begin.
subroutine up(n) bind(c)
  use iso_c_binding
  integer(c_int), value :: n
  integer(c_int) :: i
  interface
    subroutine mark(i) bind(c)
      use iso_c_binding
      integer(c_int), value :: i
    end subroutine mark
  end interface
  do i = 1, n
    call mark(i)
  end do
end subroutine up

subroutine by_three(n) bind(c)
  use iso_c_binding
  integer(c_int), value :: n
  integer(c_int) :: i
  interface
    subroutine mark(i) bind(c)
      use iso_c_binding
      integer(c_int), value :: i
    end subroutine mark
  end interface
  do i = 5, n, 3
    call mark(i)
  end do
end subroutine by_three

subroutine down(n) bind(c)
  use iso_c_binding
  integer(c_int), value :: n
  integer(c_int) :: i
  interface
    subroutine mark(i) bind(c)
      use iso_c_binding
      integer(c_int), value :: i
    end subroutine mark
  end interface
  do i = n, 1, -1
    if (mod(i, 4) == 0) cycle
    call mark(i)
  end do
end subroutine down

subroutine by_a_step(n) bind(c)
  use iso_c_binding
  integer(c_int), value :: n
  integer(c_int) :: i, step
  interface
    subroutine mark(i) bind(c)
      use iso_c_binding
      integer(c_int), value :: i
    end subroutine mark
  end interface
  step = n / 7 + 1
  do i = 1, n, step
    call mark(i)
  end do
end subroutine by_a_step

subroutine while_true(n) bind(c)
  use iso_c_binding
  integer(c_int), value :: n
  integer(c_int) :: i
  interface
    subroutine mark(i) bind(c)
      use iso_c_binding
      integer(c_int), value :: i
    end subroutine mark
  end interface
  i = 0
  do while (i < n)
    call mark(i)
    i = i + 1
  end do
end subroutine while_true
