package nsenter

import (
	"runtime"
	"syscall"
)

// InThread runs f in a thread that ends afterwards, whatever f changes in the
// thread.
func InThread(f func()) {
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so the thread ends
		if syscall.Gettid() == syscall.Getpid() {
			// The first thread of a process never ends.
			InThread(f)
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
}
