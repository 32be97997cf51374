! Module procedures, arguments by reference, arrays of assumed shape, characters and a common block.
module solver
  implicit none
  real(8), allocatable :: field(:, :)
  integer :: steps = 3
  type :: particle
    integer :: id
    real(8) :: position(3)
  end type particle
contains
  subroutine advance(cells, scale, label, count, p)
    real(8), intent(inout) :: cells(:)
    real(8), intent(in) :: scale
    character(len=*), intent(in) :: label
    integer, value :: count
    type(particle), intent(inout) :: p
    integer :: index
    do index = 1, count
      cells(index) = cells(index) * scale + len(label)
    end do
    p%id = p%id + count
    p%position(2) = scale
  end subroutine advance

  integer function fixed(values, n)
    integer, intent(in) :: n
    integer, intent(in) :: values(10, n)
    fixed = values(2, n) + n
  end function fixed
end module solver

program main
  use solver
  implicit none
  integer :: shared_number
  common /shared/ shared_number
  type(particle) :: one
  integer :: grid(10, 4)
  real(8) :: cells(5)
  allocate (field(2, 3))
  field = 1.0d0
  cells = 2.0d0
  grid = 6
  shared_number = 8
  one%id = 1
  call advance(cells, 0.5d0, "label", 5, one)
  print *, cells(1), one%id, fixed(grid, 4), shared_number, field(1, 1), steps
end program main
