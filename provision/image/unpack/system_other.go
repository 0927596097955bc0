//go:build !linux

package unpack

import (
	"archive/tar"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
)

func setAttribute(*os.File, string, string) error {
	return fault.New(fault.Unsupported, "bakeoff does not set extended attributes on %s", runtime.GOOS)
}

func (u *unpacker) fifo(*os.Root, string, string, *tar.Header) error {
	return fault.New(fault.Unsupported, "bakeoff does not create named pipes on %s", runtime.GOOS)
}

// Sync writes the file systems of this machine to their disks.
func Sync(string) error {
	unix.Sync()
	return nil
}

func fileAttributes(*os.File) (map[string]string, error) { return nil, nil }
