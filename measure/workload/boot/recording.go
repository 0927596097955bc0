package boot

import (
	"fmt"
	"math"
	"slices"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/strictjson"
	"bakeoff/base/unit"
	model "bakeoff/measure/boot"
	sources "bakeoff/measure/boot/all"
	"bakeoff/measure/boot/systemd"
	"bakeoff/measure/boot/tslog"
	"bakeoff/measure/workload"
	"bakeoff/reach/wire"
)

// Blobs are the names of the blobs that Recording reads.
func Blobs() []string { return []string{Blob, Log, System, Console} }

// Recording is all that a trial says of the boot, on the controller's clock: what was
// seen from outside, and what the system inside recorded. A record that cannot be read
// or placed is a note. A boot on the instruction clock is on that clock alone.
func Recording(raw workload.Raw) (bootmodel.Recording, error) {
	t, err := readTrial(raw)
	if err != nil {
		return bootmodel.Recording{}, err
	}
	if t.marks.instructions() > 0 {
		r := t.counted(raw[Console])
		return r, bootmodel.Check(Blob, r)
	}
	r := t.host
	if why := t.marks.Unrecorded; why != "" {
		r.Notes = append(r.Notes, bootmodel.Note{Source: "bakeoff", Lost: true, Text: why})
	}
	b, ok := raw[System]
	if !ok || t.marks.Reboot != nil { // which has it already
		return r, nil
	}
	return t.addSystem(r, b)
}

// addSystem is r with what the system inside recorded.
func (t trial) addSystem(r bootmodel.Recording, system []byte) (bootmodel.Recording, error) {
	logs, err := ParseSystem(system)
	if err != nil {
		return r, err
	}
	clock, why := t.markNamed(bootmodel.MarkClock)
	if read, unread := t.markNamed(bootmodel.MarkUserland); why == "" && unread == "" && clock.UncertaintyNS != nil &&
		read.UncertaintyNS != nil {
		// The time that the clock had lost when the agent read it is missing somewhere in the log.
		clock.UncertaintyNS = new(max(*clock.UncertaintyNS, *read.UncertaintyNS))
	}
	for _, l := range logs.Logs {
		of, err := Read(l)
		if err == nil {
			t.marks.correctFrequency(&of)
			on, start := t.counterStart(r, of)
			r, err = mergeRecord(on, of, clock, why, start...)
		}
		if err != nil {
			r.Notes = append(r.Notes, unusable(l, err))
		}
	}
	return r, bootmodel.Check(System, r)
}

// sameFrequency is the share by which a guest may measure the frequency of its time stamp counter
// wrongly without a note: what a calibration against a timer of the machine leaves.
const sameFrequency = 0.001

// correctFrequency gives a clock that counts the time stamp counter the frequency that the host
// knows. A guest measures it while it boots, against a timer that is late on a busy host: an
// emulated NetBSD read 2.66 to 12.1 GHz from a counter of 2.445 GHz.
func (m Marks) correctFrequency(r *bootmodel.Recording) {
	if m.TSCHz == 0 {
		return
	}
	for i, c := range r.Clocks {
		if c.Name != tslog.ClockName {
			continue
		}
		r.Clocks[i].Hz = m.TSCHz
		if c.Known() && math.Abs(c.Hz/m.TSCHz-1) > sameFrequency {
			r.Notes = append(r.Notes, bootmodel.Note{Source: c.Source, Text: fmt.Sprintf("The guest measured a frequency of "+
				"its time stamp counter of %s. The counter of the host has %s, which is used.", unit.Format(c.Hz, "Hz"),
				unit.Format(m.TSCHz, "Hz"))})
		}
	}
}

// counterStart ties a record on the time stamp counter to the start of the first processor, if
// the counter was 0 then. This is better known than what the guest's clock says of the first
// userland instruction, so on is r without that mark if the record agrees with it.
func (t trial) counterStart(r, of bootmodel.Recording) (on bootmodel.Recording, start []bootmodel.Pair) {
	vcpu, why := t.markNamed(bootmodel.MarkVCPU)
	if !t.marks.TSCFromStart || t.marks.TSCHz == 0 || of.Clocks[0].Name != tslog.ClockName || why != "" ||
		vcpu.UncertaintyNS == nil || t.host.Clocks[vcpu.Clock].UncertaintyNS == nil {
		return r, nil
	}
	at, off := t.host.NS(vcpu.Clock, vcpu.At), *vcpu.UncertaintyNS+*t.host.Clocks[vcpu.Clock].UncertaintyNS
	named := func(m bootmodel.Mark) bool { return m.Name == bootmodel.MarkUserland }
	if i := slices.IndexFunc(of.Marks, named); i >= 0 {
		end := at + of.NS(of.Marks[i].Clock, of.Marks[i].At)
		r.Marks = slices.DeleteFunc(slices.Clone(r.Marks), func(m bootmodel.Mark) bool {
			return named(m) && (m.UncertaintyNS == nil || math.Abs(r.NS(m.Clock, m.At)-end) <= *m.UncertaintyNS+off)
		})
	}
	return r, []bootmodel.Pair{{After: at - off, Before: at + off}}
}

// recorded adds to the marks of a machine what its system recorded. Only that says when the
// firmware started and the first process ran.
func (t *trial) recorded(system []byte) error {
	if system == nil {
		return nil
	}
	r, err := t.addSystem(t.host, system)
	if err != nil {
		return err
	}
	for _, m := range r.Marks {
		switch m.Name {
		case systemd.MarkFirmwareStart:
			m.Name, m.How = bootmodel.MarkVCPU, m.How+": the firmware started"
			r.Marks = append(r.Marks, m)
		}
	}
	bootmodel.SortMarks(&r)
	t.host = r
	return nil
}

// unusable is the note about a record that is not in the recording.
func unusable(l wire.SystemLog, err error) bootmodel.Note {
	return bootmodel.Note{Source: l.Source, Lost: true, Text: "The record of the system cannot be used: " +
		safetext.Clip(safetext.Line(err.Error()), 400) + "."}
}

// OfSystem is what a running machine recorded about its last boot, on its monotonic
// clock. If nothing can be placed on that clock, it is the first record on its own.
func OfSystem(logs wire.BootLog) (bootmodel.Recording, error) {
	var out, alone *bootmodel.Recording
	var lost []bootmodel.Note
	var last error
	base := bootmodel.Recording{Schema: bootmodel.Schema, Tracks: []bootmodel.Track{}, Spans: []bootmodel.Span{},
		Marks:  []bootmodel.Mark{},
		Clocks: []bootmodel.Clock{{Name: "monotonic", Source: "bakeoff", Hz: 1e9, UncertaintyNS: bootmodel.Exact()}}}
	for _, l := range logs.Logs {
		of, err := Read(l)
		if err == nil {
			on := base
			if out != nil {
				on = *out
			}
			var merged bootmodel.Recording
			if merged, err = mergeRecord(on, of, bootmodel.Mark{UncertaintyNS: bootmodel.Exact()}, ""); err == nil {
				out = &merged
				continue
			}
			if alone == nil {
				alone = &of
			}
		}
		lost, last = append(lost, unusable(l, err)), err
	}
	switch {
	case out != nil:
		out.Notes = append(out.Notes, lost...)
	case alone != nil:
		out = alone
	case last != nil:
		return bootmodel.Recording{}, fault.WithFix(fault.New(fault.NotFound, "the machine has no record of its boot: %w",
			last),
			"run bakeoff-agent there as root, who can read the log of the kernel")
	default:
		return bootmodel.Recording{}, fault.New(fault.NotFound, "the machine has no record of its boot")
	}
	return *out, bootmodel.Check(System, *out)
}

// ParseSystem reads the output of `bakeoff-agent boot-log`.
func ParseSystem(b []byte) (wire.BootLog, error) {
	var l wire.BootLog
	if len(b) > wire.MaxBootLog {
		return l, fault.New(fault.Invalid, "%s: longer than %d bytes", System, wire.MaxBootLog)
	}
	if err := strictjson.Decode(b, &l); err != nil {
		return l, fault.New(fault.Invalid, "%s: %w", System, err)
	}
	if l.Schema != wire.BootLogSchema {
		return l, fault.New(fault.Invalid, "%s: schema is %q, but this program reads %q", System, l.Schema,
			wire.BootLogSchema)
	}
	return l, nil
}

// Read reads one record of a system on its own clock.
func Read(l wire.SystemLog) (bootmodel.Recording, error) {
	if l.Error != "" {
		return bootmodel.Recording{}, fault.New(fault.NotFound, "%s", l.Error)
	}
	text := []byte(l.Text)
	found := model.Recognize(sources.Sources(), text[:min(len(text), model.HeadBytes)])
	if len(found) == 0 {
		return bootmodel.Recording{}, fault.New(fault.Unsupported, "this program cannot read records of the "+
			"source %q", l.Source)
	}
	return found[0].Read(l.Source, text) // the source that reads most of it
}

// mergeRecord merges a record of a system into r. clock is when the system's monotonic clock was
// 0; why says why that is not known. pairs tie the clocks of both, too.
func mergeRecord(r, of bootmodel.Recording, clock bootmodel.Mark, why string, pairs ...bootmodel.Pair) (
	bootmodel.Recording, error) {
	on := r
	if k, ok := monotonic(of); ok && why == "" && clock.UncertaintyNS != nil && k.UncertaintyNS != nil {
		zero, off := r.NS(clock.Clock, clock.At), *clock.UncertaintyNS+*k.UncertaintyNS
		pairs = append(pairs, bootmodel.Pair{At: k.OffsetNS, After: zero - off, Before: zero + off})
		// The agent reads its clock some time after the kernel has started it.
		on.Marks = slices.Clone(r.Marks)
		on.Marks = slices.DeleteFunc(on.Marks, func(m bootmodel.Mark) bool {
			return m.Name == bootmodel.MarkUserland && hasMark(of, m.Name)
		})
	}
	merged, err := bootmodel.Merge(on, of, pairs...)
	if err == nil {
		return merged, nil
	}
	if why != "" {
		err = fmt.Errorf("%w (bakeoff cannot relate the clock of the guest to that of the host: %s)", err, why)
	}
	return r, err
}

// monotonic is the monotonic clock of the system in a record. Its offset is the reading
// of the record's own clock when it was 0.
func monotonic(r bootmodel.Recording) (bootmodel.Clock, bool) {
	return lists.Find(r.Clocks, func(c bootmodel.Clock) bool { return c.Name == "monotonic" })
}

func hasMark(r bootmodel.Recording, mark string) bool {
	return slices.ContainsFunc(r.Marks, func(m bootmodel.Mark) bool { return m.Name == mark })
}
