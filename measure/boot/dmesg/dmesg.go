// Package dmesg is the source of kernel logs of which nothing is known but their time
// stamps.
package dmesg

import (
	"bakeoff/base/bootmodel"
	"bakeoff/measure/boot"
	"bakeoff/measure/boot/printk"
)

// New returns the source.
func New() boot.Source { return source{} }

type source struct{}

const name = "dmesg"

// The clock of NetBSD's log, in nanoseconds. addtstamp in sys/kern/subr_prf.c reads
// getnanouptime(9): the clock of programs as it was at the last tick, of which there are 100
// in a second (HZ). It starts at 1 s (th0 in sys/kern/kern_tc.c).
const (
	netBSDStart = 1e9
	netBSDTick  = 10e6
)

// Doc implements boot.Source.
func (source) Doc() boot.SourceDoc {
	return boot.SourceDoc{
		Name:  name,
		Reads: "the kernel log of any system, by its time stamps alone",
		Get:   "dmesg > FILE",
		Says: "A span runs from one line to the next. The log does not say what ran in between: it may be what the first " +
			"line announces, or what the second line reports. Lines with the same time make no span. The time before the " +
			"first line and after the last is unknown.",
	}
}

// Recognizes implements boot.Source.
func (source) Recognizes(head []byte) bool { return printk.Stamped(head) }

// Read implements boot.Source.
func (source) Read(file string, data []byte) (bootmodel.Recording, error) {
	if err := boot.CheckSize(file, data); err != nil {
		return bootmodel.Recording{}, err
	}
	log, err := printk.Parse(file, data)
	if err != nil {
		return bootmodel.Recording{}, err
	}
	r := bootmodel.Recording{
		Schema: bootmodel.Schema,
		Clocks: []bootmodel.Clock{{Name: "guest", Source: name, Hz: log.Hz, UncertaintyNS: bootmodel.Exact()}},
		Tracks: []bootmodel.Track{{Name: "kernel log", Parent: -1, Kind: bootmodel.KindKernel}},
		Spans:  []bootmodel.Span{},
		Notes:  log.Notes(name),
	}
	if r.Marks, r.System = log.Marks(); r.System == "netbsd" {
		r.Clocks = append(r.Clocks, bootmodel.Clock{Name: "monotonic", Source: name, Hz: 1e9, OffsetNS: netBSDStart,
			UncertaintyNS: new(float64(netBSDTick)), Note: "The time stamps of the kernel log are from the clock that " +
				"programs read."})
	}
	for i, line := range log.Lines[:len(log.Lines)-1] {
		if next := log.Lines[i+1].At; next > line.At {
			title, arg := printk.Name(line.Text)
			r.Spans = append(r.Spans, bootmodel.Span{Name: title, Arg: arg, Parent: -1, Start: line.At, End: next})
		}
	}
	bootmodel.SortMarks(&r)
	return r, nil
}
