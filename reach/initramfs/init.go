package initramfs

import (
	"debug/elf"
	"io"
	"os"

	"bakeoff/base/fault"
)

// CheckInit refuses a file that cannot be the init process of a guest.
func CheckInit(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return fault.Op(file, checkStatic(f))
}

// Init adds the program in a file of this machine as /init. It must be static.
func (a *Archive) Init(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := checkStatic(f); err != nil {
		return fault.Op(file, err)
	}
	return a.File("/init", 0o755, info.Size(), f)
}

// checkStatic refuses a program that needs an interpreter: the RAM disk has
// none, and the kernel would only report that /init is missing.
func checkStatic(r io.ReaderAt) error {
	f, err := elf.NewFile(r)
	if err != nil {
		return fault.New(fault.Invalid, "the file is not a program for a Linux guest: %w", err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fault.WithFix(fault.New(fault.Invalid, "the program is dynamically linked, so it cannot be the "+
				"init process of a guest"),
				"build it with CGO_ENABLED=0")
		}
	}
	return nil
}
