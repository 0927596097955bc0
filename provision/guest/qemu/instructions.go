package qemu

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/reach/conn"
	"bakeoff/reach/initramfs"
)

// instructionArgs is the part of the command line that replaces accelerator and clock.
//
// shift=0 makes an instruction a nanosecond; sleep=off moves the clock to the next timer
// where the guest waits. One thread runs the processor and all devices, so that nothing
// of the machine depends on the host's scheduler. The seed is what the firmware and the
// kernel would take from the host's random numbers.
//
// Source: QEMU docs/devel/tcg-icount.rst, and qemu-options.hx.
func instructionArgs() []string {
	return []string{"-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-seed", "1",
		"-rtc", "base=2020-01-01T00:00:00,clock=vm"}
}

// instructionCPU is the processor: all that is emulated but random numbers.
const instructionCPU = "max,-rdrand,-rdseed"

// fileConsole is the console of a machine on that clock, in its directory. A pipe that is
// full would hold the guest up.
const fileConsole = "console"

// consoleArgs is the part of the command line with the serial line. Standard output is
// the console or, on the instruction clock, the port of the clock programs.
func (m *Machine) consoleArgs() []string {
	if m.ConsoleLog != "" {
		return []string{"-chardev", "socket,id=console,path=" + m.socketPath(SocketConsole) +
			",server=on,wait=off,logappend=on,logfile=" + escapeCommas(m.ConsoleLog), "-serial", "chardev:console"}
	}
	if !m.Instructions {
		return []string{"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"}
	}
	return []string{"-chardev", "file,id=console,path=" + m.socketPath(fileConsole),
		"-serial", "chardev:console", "-chardev", "stdio,id=clock,signal=off",
		"-device", fmt.Sprintf("isa-debugcon,iobase=%#x,chardev=clock", initramfs.ClockPort)}
}

// InstructionWords are those of every kernel on the instruction clock. Only what makes boots
// differ is off: nokaslr keeps the kernel at one address.
const InstructionWords = "console=ttyS0 panic=-1 reboot=t nokaslr"

// Counts returns when a guest on the instruction clock has reported last, and the reports
// until then. Nothing may reach the machine from outside before: it would change the
// instructions.
func (g *Guest) Counts(ctx context.Context, last string) (counts []driver.Count, err error) {
	reported := func() error {
		counts = parseCounts(g.Process.Printed())
		for i, c := range counts {
			if c.Name == last {
				counts = counts[:i+1]
				return nil
			}
		}
		return fault.New(fault.Subject, "the guest has not reported %q", last)
	}
	err = g.Process.Until(ctx, g.Timeout, reported)
	if ctx.Err() != nil {
		return nil, err
	}
	if err == nil || reported() == nil { // a machine may end right after its report
		return counts, nil
	}
	out, cerr := g.Console(ctx)
	if cerr != nil || len(out) == 0 { // QEMU did not start
		return nil, err
	}
	if said := guest.Diagnose(out); said != "" {
		err = fault.New(fault.Of(err), "%s: %w", said, err)
	}
	return nil, fault.New(fault.Of(err), "%w\nthe end of its console:\n%s", err, guest.Excerpt(out))
}

// maxConsole bounds what is read of a console, in bytes.
const maxConsole = 1 << 20

// Console is the end of what the guest has printed.
func (g *Guest) Console(ctx context.Context) ([]byte, error) {
	if !g.Instructions {
		return g.Process.Printed(), nil
	}
	return conn.Output(ctx, g.Host, "tail", "-c", strconv.Itoa(maxConsole), path.Join(g.Dir, fileConsole))
}

// maxCounts bounds the reports of a boot.
const maxCounts = 1000

// parseCounts reads whole lines of reports. A guest may write other bytes to the port;
// they are skipped.
func parseCounts(out []byte) (counts []driver.Count) {
	for line := range bytes.Lines(out) {
		text, whole := strings.CutSuffix(string(line), "\n")
		digits, name, found := strings.Cut(text, " ")
		at, err := strconv.ParseUint(digits, 16, 63)
		if !whole || !found || len(digits) != 16 || err != nil || name == "" || len(counts) == maxCounts ||
			strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			continue
		}
		counts = append(counts, driver.Count{Name: name, At: int64(at)})
	}
	return counts
}
