//go:build linux

package bootdisk

import (
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// Hog keeps a CPU busy until the returned function is called: boots on the instruction
// clock agree all the same.
func Hog(t testing.TB, cpu int) (stop func()) {
	var done atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // and never unlocked, so that the thread ends
		var set unix.CPUSet
		set.Set(cpu)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			t.Error(err)
			return
		}
		for !done.Load() {
		}
	}()
	return func() {
		done.Store(true)
		<-ended
	}
}
