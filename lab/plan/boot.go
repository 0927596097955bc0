package plan

import (
	"errors"
	"fmt"
	"slices"
)

// switched reports whether a contender runs on a machine that is switched
// between systems.
func (p *Plan) switched() bool {
	return slices.ContainsFunc(p.Contenders, func(c Contender) bool { return c.System != "" })
}

// boots groups the contenders by the boot that they share, in the plan's
// order: those of one system of one machine, and those on machines that are
// not switched.
//
// The boot is the unit, so the twin of the baseline has its own boot. The
// difference between the two is then the difference between two boots of the
// same system, which is the noise of a comparison between systems.
func (p *Plan) boots() []Boot {
	var out []Boot
	var twins []Boot
	for _, c := range p.Contenders {
		boot := Boot{Host: c.Host, System: c.System, Contenders: []string{c.Name}}
		if c.System == "" {
			boot.Host = ""
		}
		i := slices.IndexFunc(out, func(b Boot) bool { return b.Host == boot.Host && b.System == boot.System })
		switch {
		case c.TwinOf != "" && c.System != "":
			twins = append(twins, boot)
		case i < 0:
			out = append(out, boot)
		default:
			out[i].Contenders = append(out[i].Contenders, c.Name)
		}
	}
	return append(out, twins...)
}

// drawBoots draws a block in which machines are switched between systems: the
// boots in random order, and in each of them every cell with the contenders
// that are there, in random and then in mirrored order.
//
// The order of the boots is not mirrored, because that would take each boot
// twice. Each block draws it again, so two contenders in different boots come in
// either order with equal probability. The analysis depends on that
// (stats.Contrast).
func (p *Plan) drawBoots(r draw, index int, spare bool) Block {
	b := Block{Index: index, Spare: spare}
	boots := p.boots()
	turns := make([]int, len(boots))
	for i := range turns {
		turns[i] = i
	}
	for i := len(turns) - 1; i > 0; i-- {
		j := int(r.below(uint64(i + 1)))
		turns[i], turns[j] = turns[j], turns[i]
	}
	cells := make([]string, len(p.Cells))
	for i, c := range p.Cells {
		cells[i] = c.Name
	}
	for i, turn := range turns {
		boot := boots[turn]
		boot.Contenders = r.shuffled(boot.Contenders)
		b.Boots = append(b.Boots, boot)
		b.Create = append(b.Create, boot.Contenders...)
		for _, cell := range r.shuffled(cells) {
			b.Visits = append(b.Visits, Visit{Cell: cell, Boot: i, Order: p.order(r, boot.Contenders)})
		}
	}
	return b
}

// Part is the part of a block that runs in one boot. It is the whole block if no
// machine is switched.
type Part struct {
	Boot
	Slots []Slot
}

// Parts returns the block's parts in order. Together they have its slots.
func (b Block) Parts() []Part {
	if len(b.Boots) == 0 {
		return []Part{{Boot: Boot{Contenders: b.Create}, Slots: b.Slots()}}
	}
	out := make([]Part, len(b.Boots))
	for i, boot := range b.Boots {
		out[i].Boot = boot
	}
	slots, position := b.Slots(), 0
	for _, v := range b.Visits {
		position += len(v.Order)
		n := slices.IndexFunc(slots, func(s Slot) bool { return s.Position >= position })
		if n < 0 {
			n = len(slots)
		}
		out[v.Boot].Slots = append(out[v.Boot].Slots, slots[:n]...)
		slots = slots[n:]
	}
	return out
}

// checkBoots checks that a block has every boot once, and visits every cell
// once in each, one boot after the other.
func (p *Plan) checkBoots(b Block, cells []string) error {
	want := p.boots()
	if len(b.Boots) != len(want) {
		return fmt.Errorf("the block has %d boots instead of %d", len(b.Boots), len(want))
	}
	visits := b.Visits
	var create []string
	for i, boot := range b.Boots {
		names := slices.Sorted(slices.Values(boot.Contenders))
		at := slices.IndexFunc(want, func(w Boot) bool {
			return w.Host == boot.Host && w.System == boot.System && slices.Equal(slices.Sorted(slices.Values(w.Contenders)),
				names)
		})
		if at < 0 {
			return fmt.Errorf("boot %d does not have exactly the contenders of one system of one host", i)
		}
		want = slices.Delete(want, at, at+1)
		n := len(cells)
		if len(visits) < n || slices.ContainsFunc(visits[:n], func(v Visit) bool { return v.Boot != i }) {
			return fmt.Errorf("boot %d does not visit every cell exactly once", i)
		}
		part := Block{Create: boot.Contenders, Visits: visits[:n]}
		if err := checkBlock(part, names, cells, p.Design.Mirror); err != nil {
			return fmt.Errorf("boot %d: %w", i, err)
		}
		visits, create = visits[n:], append(create, boot.Contenders...)
	}
	if len(visits) > 0 || !slices.Equal(create, b.Create) {
		return errors.New("the block has visits or environments that belong to none of its boots")
	}
	return nil
}
