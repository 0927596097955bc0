// Package firstgc delays the first garbage collection of a program until its heap has 16 MiB.
//
// A Go program collects first at 4 MiB, so a program with large tables collects several times
// while it initializes them, and frees nearly nothing. After the first collection, the usual
// rules apply, or those of Then. Go initializes packages in the order of their paths as far as
// their imports permit, so this package precedes the libraries.
package firstgc

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// usualPercent is Go's default of GOGC, with which the first collection is at 4 MiB.
const usualPercent = 100

var (
	percent   atomic.Int32 // GOGC after the first collection; 0 if the user has set it
	collected atomic.Bool
)

func init() { delay() }

// delay applies until the next collection.
func delay() {
	collected.Store(false)
	percent.Store(0)
	old := debug.SetGCPercent(4 * usualPercent)
	if old != usualPercent { // the user has set GOGC
		debug.SetGCPercent(old)
		return
	}
	percent.Store(usualPercent)
	// The first collection frees this object.
	runtime.AddCleanup(new([16]byte), func(struct{}) {
		collected.Store(true)
		debug.SetGCPercent(int(percent.Load()))
	}, struct{}{})
}

// Then sets GOGC for the time after the first collection, unless the user has set it: a program that soon ends
// needs less CPU time if its heap may grow more.
func Then(gogc int) {
	if percent.Load() == 0 {
		return
	}
	percent.Store(int32(gogc))
	if collected.Load() {
		debug.SetGCPercent(gogc)
	}
}
