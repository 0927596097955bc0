// Package install has the tests of bakeoff install that install a real system: in a guest
// under emulation that a rescue system was started in, on an empty disk.
package install
