// Package firstgc delays the first garbage collection of a program until its heap has 16 MiB.
//
// A Go program collects first at 4 MiB, so a program with large tables collects several times
// while it initializes them, and frees nearly nothing. After the first collection, the usual
// rules apply. Go initializes packages in the order of their paths as far as their imports
// permit, so this package precedes the libraries.
package firstgc

import (
	"runtime"
	"runtime/debug"
)

// usualPercent is Go's default of GOGC, with which the first collection is at 4 MiB.
const usualPercent = 100

func init() { delay() }

// delay applies until the next collection.
func delay() {
	old := debug.SetGCPercent(4 * usualPercent)
	if old != usualPercent { // the user has set GOGC
		debug.SetGCPercent(old)
		return
	}
	// The first collection frees this object.
	runtime.AddCleanup(new([16]byte), func(percent int) { debug.SetGCPercent(percent) }, old)
}
