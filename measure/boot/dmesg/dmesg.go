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

// Doc implements boot.Source.
func (source) Doc() boot.SourceDoc {
	return boot.SourceDoc{
		Name:  name,
		Reads: "the kernel log of any system, by its time stamps alone",
		Get:   "dmesg > FILE",
		Says: "A span runs from one line to the next. The log does not say what ran in between: what the first line " +
			"announces, or what the second reports. Lines with the same time make no span. The time before the first line " +
			"and after the last is unknown.",
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
	r.Marks, r.System = log.Marks()
	for i, line := range log.Lines[:len(log.Lines)-1] {
		if next := log.Lines[i+1].At; next > line.At {
			title, arg := printk.Name(line.Text)
			r.Spans = append(r.Spans, bootmodel.Span{Name: title, Arg: arg, Parent: -1, Start: line.At, End: next})
		}
	}
	bootmodel.SortMarks(&r)
	return r, nil
}
