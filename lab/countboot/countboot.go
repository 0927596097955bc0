// Package countboot boots kernels on the instruction clock, on this machine and outside of
// a run: it searches for the commit that made a boot longer (Bisect), and for the settings
// that make it shorter (Tune).
package countboot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/lab/env"
	"bakeoff/lab/hosts"
	"bakeoff/lab/manifest"
	"bakeoff/provision/driver"
	driverall "bakeoff/provision/driver/all"
	"bakeoff/provision/driver/qemu"
	"bakeoff/reach/initramfs"
)

// Guest is what boots.
type Guest struct {
	// Kernel and Initrd are files; Image is the name of an image whose kernel boots
	// instead of Kernel. Without Initrd the boot ends at the first userland instruction.
	Kernel, Initrd, Image string
	// Append are words for the kernel's command line, Options those of the driver qemu.
	Append  []string
	Options param.Values
	Memory  unit.Bytes // 0 is DefaultMemory
}

// DefaultMemory is the memory of a guest.
const DefaultMemory = 512 * unit.MiB

// Boot is one boot.
type Boot struct {
	// Counts are readings of the clock; the last one is the end of the boot.
	Counts  []driver.Count
	Console []byte
	Took    time.Duration // on the host's clock, with the creation of the machine
}

// Instructions are those of the whole boot.
func (b Boot) Instructions() int64 { return b.Counts[len(b.Counts)-1].At }

// Booter boots one guest after the other. Its methods may not be called concurrently.
type Booter struct {
	manager *env.Manager
	driver  driver.Driver
	// Boots counts the boots so far.
	Boots int
}

// Open leases this machine. run names who holds it. The caller must Close the Booter.
func Open(ctx context.Context, at hosts.Controller, run string, progress func(string)) (*Booter, error) {
	agent, err := at.Agent()
	if err != nil {
		return nil, err
	}
	state, cache := at.Dirs()
	m, err := env.Open(ctx, env.Config{StateDir: state, CacheDir: cache, HostLock: at.HostLock(), Host: at.Conn(),
		Agent: agent, Run: run, Progress: progress}, driverall.Drivers())
	if err != nil {
		return nil, err
	}
	return &Booter{manager: m, driver: qemu.New()}, nil
}

// closeTime bounds how long giving the machine back may take.
const closeTime = time.Minute

// Close gives the machine back.
func (b *Booter) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return b.manager.Close(ctx)
}

// Boot boots g once.
func (b *Booter) Boot(ctx context.Context, g Guest) (out Boot, err error) {
	c, img, err := b.contender(ctx, g)
	if err != nil {
		return out, err
	}
	e, err := b.manager.Lease(ctx, b.driver, c, img)
	if err != nil {
		return out, err
	}
	defer func() {
		down, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		err = errors.Join(err, e.Return(down))
	}()
	counted, ok := e.Instance.(driver.Counted)
	if !ok || len(counted.Counts()) == 0 {
		return out, fault.New(fault.Lab, "the boot reported no instruction counts, because the machine ran "+
			"without the instruction clock")
	}
	b.Boots++
	out = Boot{Counts: counted.Counts(), Took: e.Up.Sub(e.Asked)}
	out.Console, err = counted.Console(ctx)
	return out, err
}

// contender is g as one of a lab file.
func (b *Booter) contender(ctx context.Context, g Guest) (c manifest.Contender, img driver.Image, err error) {
	options := param.Defaults(b.driver.Doc().Options)
	maps.Copy(options, g.Options)
	options["clock"] = driver.ClockInstructions
	options["append"] = strings.Join(g.Append, " ")
	for name, file := range map[string]string{"kernel": g.Kernel, "initrd": g.Initrd} {
		if file == "" {
			continue
		}
		if options[name], err = filepath.Abs(file); err != nil {
			return c, img, err
		}
		if _, err := os.Stat(file); err != nil {
			return c, img, fault.New(fault.NotFound, "the %s %s does not exist", name, file)
		}
	}
	if g.Image != "" {
		if img, err = b.manager.Image(ctx, b.driver.Doc(), g.Image, nil, options); err != nil {
			return c, img, err
		}
	}
	c = manifest.Contender{Name: "boot", CPUs: 1, Memory: g.Memory, Options: options}
	c.Memory = cmp.Or(c.Memory, DefaultMemory)
	return c, img, nil
}

// Twice boots g two times, and refuses a guest whose boots differ: no difference of an
// instruction means anything then.
func (b *Booter) Twice(ctx context.Context, g Guest) (Boot, error) {
	first, err := b.Boot(ctx, g)
	if err != nil {
		return first, err
	}
	second, err := b.Boot(ctx, g)
	if err == nil {
		err = same(first, second)
	}
	return second, err
}

// same refuses two boots of one guest that differ.
func same(a, b Boot) error {
	if a.Instructions() == b.Instructions() {
		return nil
	}
	return fault.WithFix(fault.New(fault.Subject, "two boots of the same guest took different numbers of "+
		"instructions: %d and %d",
		a.Instructions(), b.Instructions()), "remove from the guest what waits for the host during the boot")
}

// Describe says where the boot ends.
func Describe(counts []driver.Count) string {
	end := counts[len(counts)-1].Name
	if end == initramfs.ClockUserland {
		return "the first userland instruction"
	}
	return fmt.Sprintf("the report %q of the guest", end)
}
