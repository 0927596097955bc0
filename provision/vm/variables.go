package vm

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"bakeoff/base/fault"
	"bakeoff/provision/guest"
	"bakeoff/provision/guest/bhyve"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/vm/manifest"
)

// fileVariables has the variables of the firmware UEFI, such as the boot entries that an installer
// makes. The firmware writes to it. A guest that never started has none, and neither has one that
// starts by a BIOS.
const fileVariables = "uefi-vars.fd"

// newVariables is the file on the host with the variables of a firmware that never ran; "" if the
// firmware of the guest keeps none.
func newVariables(g manifest.Guest) string {
	switch {
	case g.Driver == manifest.DriverBhyve:
		return bhyve.FirmwareVariables
	case firmwareOf(g) == qemu.OVMFCode:
		return qemu.OVMFVariables
	}
	return ""
}

// copyVariables copies variables into a folder. If it is killed, it leaves no half of the file.
func (g *Guest) copyVariables(ctx context.Context, from, dir string) error {
	to := filepath.Join(dir, fileVariables)
	if err := guest.Run(ctx, g.store.Host, "cp", from, to+".part"); err != nil {
		return fault.Op("the variables of the firmware", err)
	}
	return os.Rename(to+".part", to)
}

// variables is the file with the variables of the firmware in a folder, that of the guest or of a
// snapshot; "" if there is none.
func variables(dir string) (string, error) {
	file := filepath.Join(dir, fileVariables)
	_, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return file, err
}

// makeVariables makes the variables of a guest that has none yet, and returns their file.
func (g *Guest) makeVariables(ctx context.Context) (string, error) {
	file, err := variables(g.Path(""))
	if from := newVariables(g.Guest); err == nil && file == "" && from != "" {
		file, err = g.Path(fileVariables), g.copyVariables(ctx, from, g.Path(""))
	}
	return file, err
}

// keepVariables copies the variables of the guest, if it has some, into the folder of a snapshot.
func (g *Guest) keepVariables(ctx context.Context, dir string) error {
	file, err := variables(g.Path(""))
	if err == nil && file != "" {
		err = g.copyVariables(ctx, file, dir)
	}
	return err
}

// replaceVariables prepares in a folder the variables that a guest gets: those of the folder from, or
// new ones.
func (g *Guest) replaceVariables(ctx context.Context, m manifest.Guest, from, dir string) error {
	file := newVariables(m)
	if file == "" {
		return nil
	}
	if from != "" {
		kept, err := variables(from)
		if err != nil {
			return err
		}
		file = cmp.Or(kept, file)
	}
	return g.copyVariables(ctx, file, dir)
}
