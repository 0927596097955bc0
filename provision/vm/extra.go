package vm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/vm/manifest"
)

// fileExtra is what the next start has besides the manifest. The supervisor removes it.
const fileExtra = "extra.json"

// Extra is what one start of a guest has besides its manifest.
type Extra struct {
	Boot  string      `json:"boot,omitempty"` // instead of that of the manifest
	Disks []qemu.Disk `json:"disks,omitempty"`
	// Console lets the program of a container wait until a client of its console has connected.
	Console bool `json:"console,omitempty"`

	drives []manifest.Disk // from which Disks are made
}

const extraForms = "write order=cdn[,once=cdn], cdrom=FILE,MODEL or disk=FILE,MODEL; MODEL is ide, scsi or virtio"

// ParseExtra reads words: order=cdn[,once=cdn], cdrom=FILE,MODEL and disk=FILE,MODEL.
func ParseExtra(words []string) (x Extra, err error) {
	for _, word := range words {
		wrong := func(why string) (Extra, error) {
			return x, fault.WithFix(fault.New(fault.Invalid, "%q: %s", word, why), extraForms)
		}
		kind, value, _ := strings.Cut(word, "=")
		switch kind {
		case "order":
			if x.Boot != "" {
				return wrong("the order was given twice")
			}
			if !manifest.IsBootOrder(word) {
				return wrong("this is not an order of boot devices")
			}
			x.Boot = word
		case "cdrom", "disk":
			i := strings.LastIndexByte(value, ',')
			if i <= 0 {
				return wrong("it has no model")
			}
			d := manifest.Disk{Path: value[:i], Model: value[i+1:], NoCreate: true, Media: kind}
			if !slices.Contains([]string{"ide", "scsi", "virtio"}, d.Model) {
				return wrong("there is no model " + d.Model)
			}
			if d.Path, err = filepath.Abs(d.Path); err != nil {
				return x, err
			}
			x.drives = append(x.drives, d)
		default:
			return wrong("it is not an option of a start")
		}
	}
	return x, nil
}

// IsEmpty reports whether the machine is the one of the manifest.
func (x Extra) IsEmpty() bool { return x.Boot == "" && len(x.drives) == 0 }

// ordersOf are the orders in a text of the form order=cdn,once=cdn.
func ordersOf(boot string) (order, once string) {
	for part := range strings.SplitSeq(boot, ",") {
		if text, ok := strings.CutPrefix(part, "once="); ok {
			once = text
		} else {
			order = strings.TrimPrefix(part, "order=")
		}
	}
	return order, once
}

// prepareExtra keeps what the next start has for the supervisor. Its caller holds the lock for
// changes, and the guest does not run.
func (g *Guest) prepareExtra(ctx context.Context, x Extra) error {
	if err := os.RemoveAll(g.Path(fileExtra)); err != nil || x.IsEmpty() && !x.Console {
		return err
	}
	if x.IsEmpty() {
		return writeJSON(g.Path(fileExtra), x)
	}
	var b Boot
	if err := readJSON(g.Path(fileBoot), &b); err != nil {
		return err
	}
	var why string
	switch order, once := ordersOf(x.Boot); {
	case g.Brand != manifest.KVM:
		why = "it is a guest of brand " + string(g.Brand) + ", and only kvm has these"
	case b.Kernel != "" && x.Boot != "":
		why = "a machine with a kernel starts no boot loader"
	case strings.Contains(order+once, "n") && len(g.NICs) == 0:
		why = "it has no NIC to start from"
	}
	if why != "" {
		return fault.WithFix(fault.New(fault.Invalid, "order, cdrom and disk: guest %s: %s", g.name(), why), "leave it out")
	}
	if memory, err := g.resumes(); err != nil || memory != "" {
		return errors.Join(err, fault.WithFix(fault.New(fault.Unsupported, "guest %s continues from the memory of a "+
			"snapshot, and does not boot", g.name()), "run `bakeoff vm start "+g.UUID+"` first"))
	}
	others, err := g.store.List()
	if err != nil {
		return err
	}
	if p := diskConflict(manifest.Guest{Disks: x.drives}, others); len(p) > 0 {
		return fault.WithFix(fault.New(fault.Invalid, "disk=%s: %s", p[0].Value, p[0].Reason), "name another file, or a copy")
	}
	for i, d := range x.drives {
		disk, _, err := g.store.newDisk(ctx, Origin{}, g.Driver, d, d.Media, "")
		if err != nil {
			return err
		}
		disk.Serial = fmt.Sprint("extra", i)
		x.Disks = append(x.Disks, disk)
	}
	return writeJSON(g.Path(fileExtra), x)
}

// takeExtra reads what this start has besides the manifest: the next one has it no more.
func (g *Guest) takeExtra() (x Extra, err error) {
	err = readJSON(g.Path(fileExtra), &x)
	if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	return x, errors.Join(err, os.Remove(g.Path(fileExtra)))
}
