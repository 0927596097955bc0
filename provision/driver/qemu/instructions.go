package qemu

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/reach/conn"
	"bakeoff/reach/initramfs"
	"bakeoff/reach/wire"
)

// The option clock and its values.
const (
	optClock          = "clock"
	clockHost         = "host"
	clockInstructions = driver.ClockInstructions
	// viaMark is the value of ready for a report of the guest on that clock.
	viaMark = "mark"
)

var clockOption = param.Spec{Name: optClock, Kind: param.Text, Default: clockHost,
	Enum: []string{clockHost, clockInstructions},
	Doc: "What time is in the guest. With instructions, each executed instruction takes a nanosecond, and a guest " +
		"that sleeps is woken at once, with its clock set forward: repeated boots agree to the instruction, whatever " +
		"else the host does. The machine is emulated, has one CPU, no disk and no network, and is measured by the " +
		"workload boot. It boots the kernel, of the image or of the option kernel, with the RAM disk of the option " +
		"initrd, or with one that restarts the machine at the first userland instruction."}

// onInstructions tells that executed instructions are the time of the guest.
func (o options) onInstructions() bool { return o.clock == clockInstructions }

// validateClock refuses what would make boots differ from each other.
func (o options) validateClock(spec driver.Spec) error {
	refuse := func(kind fault.Kind, fix, format string, args ...any) error {
		return fault.WithFix(fault.New(kind, "%s: %s: "+format, append([]any{optClock, clockInstructions}, args...)...), fix)
	}
	switch {
	case o.accel == accelKVM:
		return refuse(fault.Unsupported, "remove "+optAccel, "only an emulated processor counts instructions")
	case spec.CPUs != 1:
		return refuse(fault.Unsupported, "cpus: 1", "the order of the instructions of several CPUs changes (cpus is %d)",
			spec.CPUs)
	case o.firmware == ovmf:
		return refuse(fault.Unsupported, "measure it on the clock "+clockHost,
			"%s: with %s a boot does not end there within minutes", optFirmware, ovmf)
	case o.disk != "":
		return refuse(fault.Unsupported, "put the files into "+optInitrd, "the host decides when a disk answers")
	case spec.Image.Disk == "" && o.kernel == "":
		return refuse(fault.Invalid, "name an image or a "+optKernel, "there is no kernel")
	case o.modules != "":
		return refuse(fault.Invalid, "remove "+optModules, "bakeoff loads no modules")
	case len(spec.Volumes) > 0:
		return refuse(fault.Unsupported, "remove volumes", "the host decides when a disk answers")
	case spec.Network != nil:
		return refuse(fault.Unsupported, "remove the workloads that need a network",
			"the host decides when a packet arrives")
	case len(spec.Tuning) > 0:
		return refuse(fault.Unsupported, "remove tuning", "bakeoff makes no settings in this guest")
	case o.channel == channelDial:
		return refuse(fault.Invalid, "remove "+optChannel, "a channel to the host would change the instructions")
	}
	_, err := o.awaited()
	return err
}

// awaited is the name of the report with which the boot ends: of the option ready.
func (o options) awaited() (string, error) {
	via, name, _ := strings.Cut(o.ready, ":")
	switch {
	case o.ready == "":
		return initramfs.ClockUserland, nil
	case via == viaMark && name != "" && o.initrd != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~'
	}):
		return name, nil
	}
	return "", fault.WithFix(fault.New(fault.Invalid, "%s: on the clock %s a boot ends at the first userland "+
		"instruction, or where a guest of the option %s reports (got %q)", optReady, clockInstructions, optInitrd, o.ready),
		"remove "+optReady+", or write "+optReady+": "+viaMark+":NAME and let the guest run "+initramfs.Mark+" NAME")
}

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
func consoleArgs(m machine) []string {
	if !m.instructions {
		return []string{"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"}
	}
	return []string{"-chardev", "file,id=console,path=" + escape(path.Join(m.dir, fileConsole)),
		"-serial", "chardev:console", "-chardev", "stdio,id=clock,signal=off",
		"-device", fmt.Sprintf("isa-debugcon,iobase=%#x,chardev=clock", initramfs.ClockPort)}
}

// instructionWords are those of every kernel on the instruction clock.
const instructionWords = "console=ttyS0 panic=-1 reboot=t nokaslr"

// instructionKernelArgs is the kernel's command line on the instruction clock. Unlike
// kernelArgs it has no word that makes the boot shorter: the boot is what is measured.
// Only what makes boots differ is off: nokaslr keeps the kernel at one address. The last
// word is the program that reports the first userland instruction.
func instructionKernelArgs(m machine) string {
	words := []string{instructionWords}
	if m.append != "" {
		words = append(words, m.append)
	}
	return strings.Join(append(words, "rdinit="+initramfs.First), " ")
}

// ownInit is the program that the kernel would have started as its first: of the word
// rdinit of its command line.
func ownInit(words string) string {
	init := ""
	for _, w := range strings.Fields(words) {
		if name, ok := strings.CutPrefix(w, "rdinit="); ok {
			init = name
		}
	}
	return cmp.Or(init, "/init")
}

// clockDisk writes the RAM disk with the clock programs and, after them, the user's.
func (in *Instance) clockDisk(ctx context.Context, m *machine, o options, files guestFiles) error {
	if system := files.kernel.System; system != "" && system != systemLinux {
		return fault.New(fault.Unsupported, "%s: %s: the program that reports the clock needs Linux, and %s is %s", optClock,
			clockInstructions, o.kernel, files.kernel.Version)
	}
	q := wire.InitramfsRequest{Clock: true, Before: o.initrd, Agent: in.Spec.Agent,
		Out: path.Join(in.Spec.Dir, fileInitramfs)}
	if o.initrd != "" {
		q.Next = ownInit(o.append)
	}
	m.initrd = q.Out
	return guest.Initramfs(ctx, in.Host, q)
}

// count returns when the guest has reported what the boot ends with, and reads the
// reports. Nothing may reach the machine from outside before: it would change the
// instructions.
func (in *Instance) count(ctx context.Context, p *guest.Process, o options) ([]driver.Count, error) {
	name, err := o.awaited()
	if err != nil {
		return nil, err
	}
	var counts []driver.Count
	reported := func() error {
		counts = parseCounts(p.Printed())
		for i := 1; i < len(counts) && o.initrd != ""; i++ {
			counts[i].Program = ownInit(o.append)
		}
		for i, c := range counts {
			if c.Name == name {
				counts = counts[:i+1]
				return nil
			}
		}
		return fault.New(fault.Subject, "it has not reported %q", name)
	}
	err = in.Until(ctx, p, o.bootTimeout, reported)
	if ctx.Err() != nil {
		return nil, err
	}
	if err == nil || reported() == nil { // a machine may end right after its report
		return counts, nil
	}
	out, cerr := in.console(ctx)
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

// console is the end of what the guest has printed.
func (in *Instance) console(ctx context.Context) ([]byte, error) {
	return conn.Output(ctx, in.Host, "tail", "-c", strconv.Itoa(maxConsole), path.Join(in.Spec.Dir, fileConsole))
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

// counted is a machine that was measured on the instruction clock.
type counted struct {
	guest.Outside
	in *Instance
}

var _ driver.Counted = counted{}

// Counts are the reports of the guest.
func (c counted) Counts() []driver.Count { return c.in.counts }

// Console is the end of what the guest has printed.
func (c counted) Console(ctx context.Context) ([]byte, error) { return c.in.console(ctx) }

// clockFacts says which clock the guest has.
func (o options) clockFacts() map[string]string {
	if !o.onInstructions() {
		return nil
	}
	ready, _ := o.awaited()
	return map[string]string{driver.FactClock: clockInstructions, "channel": "none", "ready": ready,
		"root": "the initial RAM disk"}
}
