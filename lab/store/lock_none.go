//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package store

import "os"

// lock does nothing, because the system has no flock(2): two controllers can
// then open one folder at the same time.
func lock(*os.File) error { return nil }

func unlock(*os.File) {}
