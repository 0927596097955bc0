package plan

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/lab/manifest"
)

func boxLab(t testing.TB, design string) *manifest.Lab {
	t.Helper()
	l, err := manifest.Parse("bakeoff.yaml", []byte(`schema: bakeoff/lab/v1
name: box
hosts: {box: {ssh: box, switch: {freebsd: [next, "2"], debian: [next, "1"]}}}
contenders:
  - {name: jail, driver: host, host: box, system: freebsd}
  - {name: zfs, driver: host, host: box, system: freebsd}
  - {name: linux, driver: host, host: box, system: debian}
  - {name: here, driver: host}
baseline: linux
cells:
  - {name: sha, workload: crypto, primary: true}
  - {name: web, workload: http, primary: [throughput]}
design: `+design+"\n"), catalogue(), "")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func boxPlan(t testing.TB, design string) *Plan {
	t.Helper()
	p, err := Expand(boxLab(t, design), catalogue(), 3, "test")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Every block boots each system once, and once more for the twin; inside a
// boot the order is mirrored, and the parts have the slots in their order.
func TestBlocksOfASwitchedMachine(t *testing.T) {
	p := boxPlan(t, "{}")
	first := map[string]int{}
	for _, b := range p.Blocks {
		if len(b.Boots) != 4 {
			t.Fatalf("block %d has the boots %+v, want freebsd, debian, the twin's and those that stay", b.Index, b.Boots)
		}
		first[b.Boots[0].System+"/"+b.Boots[0].Contenders[0]]++
		var slots []Slot
		for i, part := range b.Parts() {
			want := 2 * len(p.Cells) * len(part.Contenders)
			if len(part.Slots) != want || !reflect.DeepEqual(part.Boot, b.Boots[i]) {
				t.Errorf("block %d, boot %d has %d slots, want %d", b.Index, i, len(part.Slots), want)
			}
			for _, s := range part.Slots {
				if c, _ := p.Contender(s.Contender); c.System != part.System || !slices.Contains(part.Contenders, s.Contender) {
					t.Errorf("%+v runs while %q is up", s, part.System)
				}
			}
			slots = append(slots, part.Slots...)
		}
		if !reflect.DeepEqual(slots, b.Slots()) {
			t.Errorf("block %d: the parts have other slots than the block", b.Index)
		}
		if slices.ContainsFunc(b.Boots, func(x Boot) bool {
			return slices.Contains(x.Contenders, "linux~twin") &&
				len(x.Contenders) > 1
		}) {
			t.Errorf("block %d: the twin shares a boot: %+v", b.Index, b.Boots)
		}
	}
	if len(first) < 4 {
		t.Errorf("over %d blocks only these came first: %v", len(p.Blocks), first)
	}
	if err := p.Drawn(); err != nil {
		t.Error(err)
	}
	data := encode(t, p)
	if again, err := Decode(data); err != nil || !reflect.DeepEqual(again.Blocks, p.Blocks) {
		t.Errorf("read back: %v", err)
	}
}

// Exchanging two contenders that each have a boot of their own leaves the
// chance of a schedule as it is: of the many blocks, the baseline comes
// before its twin in about half. The analysis is exact because of that.
func TestOrderOfBootsIsFair(t *testing.T) {
	p := boxPlan(t, "{}")
	const blocks = 4000
	before := 0
	for i := range blocks {
		b := p.draw(i, false)
		if slices.Index(b.Create, "linux") < slices.Index(b.Create, "linux~twin") {
			before++
		}
	}
	if sd := 31.6; float64(before) < blocks/2-5*sd || float64(before) > blocks/2+5*sd {
		t.Errorf("the baseline came first in %d of %d blocks", before, blocks)
	}
}

func TestContendersLeaveTheirBoots(t *testing.T) {
	b := boxPlan(t, "{}").Blocks[0].Without(map[string]bool{"jail": true, "zfs": true}, nil)
	for _, part := range b.Parts() {
		if part.System == "freebsd" && (len(part.Contenders) > 0 || len(part.Slots) > 0) {
			t.Errorf("a boot without contenders has %+v", part)
		}
		if part.System == "debian" && len(part.Slots) != 4 {
			t.Errorf("%d slots in %+v, want 4", len(part.Slots), part.Boot)
		}
	}
}

func TestBootsThatWereTamperedWith(t *testing.T) {
	for name, change := range map[string]func(p *Plan){
		"a boot left out":    func(p *Plan) { p.Blocks[1].Boots = p.Blocks[1].Boots[1:] },
		"another system":     func(p *Plan) { p.Blocks[1].Boots[0].System += "x" },
		"a boot of nowhere":  func(p *Plan) { p.Blocks[1].Visits[0].Boot = 9 },
		"a negative boot":    func(p *Plan) { p.Blocks[1].Visits[0].Boot = -1 },
		"no boots":           func(p *Plan) { p.Blocks[1].Boots = nil },
		"one visit too many": func(p *Plan) { p.Blocks[1].Visits = append(p.Blocks[1].Visits, p.Blocks[1].Visits[0]) },
		"creation elsewhere": func(p *Plan) { slices.Reverse(p.Blocks[1].Create) },
	} {
		p := boxPlan(t, "{}")
		change(p)
		if _, err := Decode(encode(t, p)); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "block 1") {
			t.Errorf("%s: error %v, want Invalid and the block", name, err)
		}
	}
	p := expand(t, "{}", 1)
	p.Blocks[0].Boots = []Boot{{Host: "box", System: "debian"}}
	if _, err := Decode(encode(t, p)); !fault.Is(err, fault.Invalid) {
		t.Errorf("boots where nothing is switched: error %v, want Invalid", err)
	}
}

func TestInstancesDoNotOutliveBoots(t *testing.T) {
	if _, err := Expand(boxLab(t, "{instances: run}"), catalogue(), 1, "test"); !fault.Is(err, fault.Invalid) {
		t.Errorf("error %v, want Invalid", err)
	}
}
