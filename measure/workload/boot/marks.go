package boot

import (
	"fmt"
	"slices"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/strictjson"
	"bakeoff/measure/boot/qemu"
	"bakeoff/measure/workload"
)

// Marks is the blob of a trial: nanoseconds on the controller's clock since the request
// for the environment.
type Marks struct {
	Schema string `json:"schema"`
	// Ready: its driver says that it is ready.
	ReadyNS int64 `json:"ready_ns"`
	// Left and Gone: its removal began and ended.
	LeftNS int64 `json:"left_ns"`
	GoneNS int64 `json:"gone_ns"`
	// Counts are readings of the instruction clock in the order of the boot, the end of
	// the boot last; empty on other clocks.
	Counts []Count `json:"counts,omitempty"`
	// Moments are what was seen of the boot. Absent says of a moment by its name why it
	// is not known.
	Moments []Moment          `json:"moments,omitempty"`
	Absent  map[string]string `json:"absent,omitempty"`
	// Unrecorded says in a sentence why nothing of the system inside was recorded although
	// the parameter record asked for it.
	Unrecorded string `json:"unrecorded,omitempty"`
	// Log places the blob Log on the controller's clock.
	Log *LogClock `json:"log,omitempty"`
	// TSCHz is the frequency of the time stamp counter that the guest reads, as its host knows it;
	// 0 if it does not.
	TSCHz float64 `json:"tsc_hz,omitempty"`
	// TSCFromStart tells that this counter was 0 at the mark "vCPU start".
	TSCFromStart bool `json:"tsc_from_start,omitempty"`
	// Reboot is set if the environment is a machine that was rebooted. What System says of
	// its boot then belongs to the marks.
	Reboot *Reboot `json:"reboot,omitempty"`
}

// Reboot is the proof that a machine was rebooted: its boots before and after.
type Reboot struct {
	Before string `json:"before"`
	After  string `json:"after"`
}

// Count is a moment on the instruction clock.
type Count struct {
	Name string `json:"name"`
	At   int64  `json:"at"` // instructions since the first one of the machine
	// Program is what process 1 executed after the first userland instruction; "" before.
	Program string `json:"program,omitempty"`
}

// instructions is the length of the boot on the instruction clock; 0 on other clocks.
func (m Marks) instructions() int64 {
	if len(m.Counts) == 0 {
		return 0
	}
	return m.Counts[len(m.Counts)-1].At
}

// Moment is something that happened while the environment came up.
type Moment struct {
	Name string `json:"name"` // as marks of package bootmodel
	AtNS int64  `json:"at_ns"`
	// UncertaintyNS is the greatest error of AtNS; null if it is unknown.
	UncertaintyNS *int64 `json:"uncertainty_ns"`
	How           string `json:"how,omitempty"`
}

// LogClock is a reading of the clock of the log.
type LogClock struct {
	// UnixNS was the clock of the host when the environment was requested, at most
	// UncertaintyNS off.
	UnixNS        int64 `json:"unix_ns"`
	UncertaintyNS int64 `json:"uncertainty_ns"`
	// Lost tells that the end of the log is missing.
	Lost bool `json:"lost,omitempty"`
}

const (
	// Schema is that of Marks, and Blob their name. Earlier programs wrote SchemaV1,
	// which has no moments.
	Schema   = "bakeoff/boot/v2"
	SchemaV1 = "bakeoff/boot/v1"
	Blob     = "marks.json"
	// Log is the blob with what the hypervisor wrote, System that with what the system
	// inside recorded, a wire.BootLog.
	Log    = "hypervisor.log"
	System = "boot-log.json"
)

// MarkAsked is a mark of this workload, besides those of package bootmodel.
const MarkAsked = "environment requested"

// Bounds of the blobs.
const (
	maxMoments = 64
	maxText    = 1000 // bytes of a name or a reason
)

// trial is what a trial says of the boot.
type trial struct {
	marks Marks
	host  bootmodel.Recording // its marks, on the controller's clock
}

// readTrial reads the blobs of a trial.
func readTrial(raw workload.Raw) (trial, error) {
	b, ok := raw[Blob]
	if !ok {
		return trial{}, fault.New(fault.Invalid, "%s: %w", Blob, workload.ErrNoBlob)
	}
	var t trial
	if err := strictjson.Decode(b, &t.marks); err != nil {
		return trial{}, fault.New(fault.Invalid, "%s: %w", Blob, err)
	}
	if err := t.marks.checkMarks(); err != nil {
		return trial{}, fault.New(fault.Invalid, "%s: %w", Blob, err)
	}
	var err error
	t.host, err = t.marks.recording(raw[Log])
	if err == nil && t.marks.Reboot != nil {
		err = t.recorded(raw[System])
	}
	return t, err
}

func (m Marks) checkMarks() error {
	switch {
	case m.Schema != Schema && m.Schema != SchemaV1:
		return fmt.Errorf("schema is %q, but this program reads %q", m.Schema, Schema)
	case !(0 < m.ReadyNS && m.ReadyNS <= m.LeftNS && m.LeftNS < m.GoneNS):
		return fmt.Errorf("ready_ns, left_ns and gone_ns are not ascending: %d %d %d", m.ReadyNS, m.LeftNS, m.GoneNS)
	case len(m.Moments) > maxMoments || len(m.Absent) > maxMoments:
		return fmt.Errorf("the file has more than %d moments", maxMoments)
	case m.Reboot != nil && (m.Reboot.Before == "" || m.Reboot.After == "" || m.Reboot.Before == m.Reboot.After):
		return fmt.Errorf("the machine was not rebooted: the ID of its boot was %.100q and is "+
			"%.100q", m.Reboot.Before, m.Reboot.After)
	case m.TSCHz < 0:
		return fmt.Errorf("the frequency of the time stamp counter is negative: %v Hz", m.TSCHz)
	case m.Log != nil && m.Log.UncertaintyNS < 0:
		return fmt.Errorf("the uncertainty of the log's clock is negative: %d ns", m.Log.UncertaintyNS)
	}
	last := int64(0)
	for _, c := range m.Counts {
		if c.At <= last {
			return fmt.Errorf("the instruction count %d of %.40q is not above the previous count %d", c.At, c.Name, last)
		}
		if len(c.Name) > maxText || len(c.Program) > maxText {
			return fmt.Errorf("the name of a count is too long: %.40q", c.Name)
		}
		last = c.At
	}
	for _, x := range m.Moments {
		if x.Name == "" || len(x.Name) > maxText || len(x.How) > maxText || x.UncertaintyNS != nil && *x.UncertaintyNS < 0 {
			return fmt.Errorf("the moment %.40q has an invalid name, source or uncertainty", x.Name)
		}
	}
	return nil
}

// recording is the marks on the controller's clock, with those of the log.
func (m Marks) recording(log []byte) (bootmodel.Recording, error) {
	r := bootmodel.Recording{Schema: bootmodel.Schema, Tracks: []bootmodel.Track{}, Spans: []bootmodel.Span{},
		Clocks: []bootmodel.Clock{{Name: "host", Source: "bakeoff", Hz: 1e9, UncertaintyNS: bootmodel.Exact()}},
		Marks: []bootmodel.Mark{{Name: MarkAsked, UncertaintyNS: bootmodel.Exact(), How: "bakeoff asked for the environment"},
			{Name: bootmodel.MarkReady, At: m.ReadyNS, UncertaintyNS: bootmodel.Exact(),
				How: "its driver said that it is ready"}}}
	for _, x := range m.Moments {
		mark := bootmodel.Mark{Name: x.Name, At: x.AtNS, How: x.How}
		if x.UncertaintyNS != nil {
			mark.UncertaintyNS = new(float64(*x.UncertaintyNS))
		}
		r.Marks = append(r.Marks, mark)
	}
	if m.Log != nil && len(log) > 0 {
		of, start, err := qemu.Read(Log, log)
		if err != nil {
			return r, err
		}
		of.Marks = slices.DeleteFunc(of.Marks, func(k bootmodel.Mark) bool { return m.Absent[k.Name] != "" })
		at := float64(start - m.Log.UnixNS)
		off := float64(m.Log.UncertaintyNS)
		if r, err = bootmodel.Merge(r, of, bootmodel.Pair{After: at - off, Before: at + off, At: 0}); err != nil {
			return r, fault.Op(Log, err)
		}
		if m.Log.Lost {
			r.Notes = append(r.Notes, bootmodel.Note{Source: "qemu", Lost: true, Text: "QEMU wrote more events than " +
				"bakeoff keeps."})
		}
	}
	bootmodel.SortMarks(&r)
	return r, nil
}

// between is the time between two marks in seconds, or why it is not known.
func (t trial) between(from, to string) (seconds float64, why string) {
	a, why := t.markNamed(from)
	if why != "" {
		return 0, why
	}
	b, why := t.markNamed(to)
	if why != "" {
		return 0, why
	}
	took := t.host.NS(b.Clock, b.At) - t.host.NS(a.Clock, a.At)
	if took <= 0 {
		return 0, "the marks are less apart than their uncertainty: " + from + ", " + to
	}
	return took / 1e9, ""
}

// markNamed is the mark called name, or why there is none.
func (t trial) markNamed(name string) (bootmodel.Mark, string) {
	i := slices.IndexFunc(t.host.Marks, func(m bootmodel.Mark) bool { return m.Name == name })
	switch why := t.marks.Absent[name]; {
	case i >= 0:
		return t.host.Marks[i], ""
	case why != "":
		return bootmodel.Mark{}, why
	case t.marks.Schema == SchemaV1:
		return bootmodel.Mark{}, "the program that made this run did not look for it"
	}
	return bootmodel.Mark{}, "nothing was seen of the mark: " + name
}
