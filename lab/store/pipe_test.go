//go:build linux || freebsd || openbsd || netbsd || dragonfly

package store

import (
	"syscall"
	"testing"
)

func makePipe(t *testing.T, name string) {
	if err := syscall.Mkfifo(name, 0o666); err != nil {
		t.Fatal(err)
	}
}
