package qemu

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/reach/conn"
)

// watchArgs make QEMU write a line with the time of day for each event that tells how far
// a boot is. The last part of the kernel that the firmware reads over fw_cfg, and the
// first command to the interrupt controller after it, enclose the kernel's entry. A boot
// has less than two hundred of these events.
//
// Source: hw/nvram/trace-events and hw/intc/trace-events of QEMU.
func watchArgs() []string {
	argv := []string{"-msg", "timestamp=on"}
	for _, event := range []string{"fw_cfg_add_*", "fw_cfg_select", "pic_ioport_write"} {
		argv = append(argv, "-trace", "enable="+event)
	}
	return argv
}

// maxEvents bounds what is kept of the events, in bytes. A guest with the old interrupt
// controller writes to it for every interrupt, also after it is up.
const maxEvents = 256 << 10

// events takes the events out of what QEMU writes on its standard error. Everything else
// goes to rest, without its time.
type events struct {
	rest *conn.Tail

	mu      sync.Mutex
	partial []byte
	kept    bytes.Buffer
	lost    bool
}

var (
	event    = lazy.Compile(`^[0-9]+@([0-9]{1,12})\.([0-9]{6}):`)
	wallTime = lazy.Compile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z `)
)

// Write never fails.
func (e *events) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.partial = append(e.partial, p...)
	for {
		end := bytes.IndexByte(e.partial, '\n') + 1
		if end == 0 && len(e.partial) < maxEvents {
			return len(p), nil
		}
		end = cmp.Or(end, len(e.partial))
		e.sortLine(e.partial[:end])
		e.partial = append(e.partial[:0], e.partial[end:]...)
	}
}

func (e *events) sortLine(line []byte) {
	switch {
	case !event.Match(line):
		e.rest.Write(line[len(wallTime.Find(line)):])
	case e.kept.Len()+len(line) > maxEvents:
		e.lost = true
	default:
		e.kept.Write(line)
	}
}

// keptLog is what was kept, nil if there is nothing.
func (e *events) keptLog() *driver.HypervisorLog {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kept.Len() == 0 {
		return nil
	}
	return &driver.HypervisorLog{Text: bytes.Clone(e.kept.Bytes()), Lost: e.lost}
}

// Log is what QEMU wrote about the boot of a guest that is watched, with the writes to its
// debug port.
func (g *Guest) Log(ctx context.Context) (log *driver.HypervisorLog, err error) {
	if log = g.events.keptLog(); log == nil {
		return nil, fault.New(fault.Lab, "QEMU wrote none of the trace events that bakeoff asked for")
	}
	if log.Stamp, log.At, log.Uncertainty, err = hostNow(ctx, g.Host); err != nil {
		return nil, err
	}
	if g.writes != nil {
		g.writes.mergeInto(log)
	}
	return log, nil
}

// hostNow reads the clock of the host, which QEMU's events have, and how far it may be
// from the reading of the controller that it returns, too.
func hostNow(ctx context.Context, host conn.Conn) (there, here time.Time, uncertainty time.Duration, err error) {
	same, err := sameKernel(ctx, host)
	if err != nil {
		return there, here, 0, err
	}
	if same {
		now := time.Now()
		return now, now, time.Microsecond, nil // events have whole microseconds
	}
	uncertainty = -1
	for range 5 {
		asked := time.Now()
		out, err := conn.Output(ctx, host, "date", "+%s.%N")
		took := time.Since(asked)
		if err != nil {
			return there, here, 0, err
		}
		at, err := parseDate(strings.TrimSpace(string(out)))
		if err != nil {
			return there, here, 0, err
		}
		if uncertainty < 0 || took/2 < uncertainty {
			there, here, uncertainty = at, asked.Add(took/2), took/2
		}
	}
	return there, here, uncertainty, nil
}

// parseDate reads the output of date +%s.%N.
func parseDate(text string) (time.Time, error) {
	whole, part, _ := strings.Cut(text, ".")
	s, err := strconv.ParseInt(whole, 10, 64)
	ns, nerr := strconv.ParseInt(part, 10, 64)
	if err != nil || nerr != nil || len(part) != 9 || ns < 0 {
		return time.Time{}, fault.New(fault.Lab, "the command date of the host does not print nanoseconds (it "+
			"printed %q)", text)
	}
	return time.Unix(s, ns), nil
}

// bootID is another text for each boot of a Linux kernel.
const bootID = "/proc/sys/kernel/random/boot_id"

// sameKernel tells whether host runs on the kernel of this process, and so has its clock.
func sameKernel(ctx context.Context, host conn.Conn) (bool, error) {
	here, err := os.ReadFile(bootID)
	if err != nil {
		return false, nil // another system
	}
	there, err := conn.Output(ctx, host, "cat", bootID)
	if err != nil {
		return false, err
	}
	return bytes.Equal(bytes.TrimSpace(here), bytes.TrimSpace(there)), nil
}

// ObserveBoot has the moments of the boot of m include what QEMU sees of it. The guest is m's
// and has Watch.
func (g *Guest) ObserveBoot(m *guest.Hosted) {
	m.Observe = func(ctx context.Context, seen *driver.Moments) (err error) {
		seen.Log, err = g.Log(ctx)
		// With KVM and with TCG, the guest reads the counter of the host. The kernel of a guest
		// measures its frequency against a timer that is late on a busy host.
		seen.TSCHz = float64(g.Machine.TSCKHz) * 1e3
		// TCG counts from when QEMU lets the machine run (cpu_enable_ticks).
		seen.TSCFromStart = g.Machine.Accel == TCG
		return err
	}
	const unseen = "QEMU does not see when the kernel starts: "
	switch {
	case g.Kernel == "":
		m.Lacks(unseen+"the boot loader of the disk loads it", bootmodel.MarkFirmware, bootmodel.MarkKernel)
	case g.Firmware.Name == OVMF:
		m.Lacks(unseen+"UEFI reads files for the kernel while the kernel already runs",
			bootmodel.MarkFirmware, bootmodel.MarkKernel)
	}
}
