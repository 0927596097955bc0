package boot

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
)

// guest is a small recording on a clock of hz ticks per second.
func guest(hz float64, marks ...bootmodel.Mark) bootmodel.Recording {
	return bootmodel.Recording{
		Schema: bootmodel.Schema,
		System: "linux",
		Clocks: []bootmodel.Clock{{Name: "guest", Source: "linux", Hz: hz, UncertaintyNS: bootmodel.Exact()}},
		Tracks: []bootmodel.Track{{Name: "kernel", Parent: -1, Kind: bootmodel.KindKernel}, {Name: "init", Parent: 0,
			Kind: bootmodel.KindProcess}},
		Spans: []bootmodel.Span{
			{Name: "main", Parent: -1, Start: 10, End: 110},
			{Name: "init", Arg: "vga", Parent: 0, Start: 20, End: 50},
			{Name: "WAIT", Parent: 0, Start: 60, End: 90, Wait: true},
			{Name: "probe", Track: 1, Parent: 2, Start: 60, End: 80, Charged: true},
		},
		Marks: marks,
	}
}

func u(ns float64) *float64 { return &ns }

func TestARecordingIsReadAsItWasWritten(t *testing.T) {
	r := guest(1e9, bootmodel.Mark{Name: bootmodel.MarkUserland, At: 100, UncertaintyNS: u(3), How: "<seen>"})
	root := 0
	r.Root = &root
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	back, err := Parse("x", b.Bytes())
	if err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("%+v, %v", back, err)
	}
	for _, bad := range []string{"", "{", `{"schema":"other"}`, strings.Replace(b.String(), `"hz"`, `"hertz"`, 1),
		b.String() + "1", strings.Replace(b.String(), `"parent":2`, `"parent":3`, 1)} {
		if _, err := Parse("x", []byte(bad)); !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), "x") {
			t.Errorf("%.40s: %v", bad, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	var b bytes.Buffer
	if err := Write(&b, guest(1e9, bootmodel.Mark{Name: bootmodel.MarkRoot})); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse("x", data)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("error of kind %v: %v", fault.Of(err), err)
			}
			return
		}
		r.Self()
		for i := range r.Spans {
			r.Path(i)
		}
	})
}
