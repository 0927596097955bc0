package analysis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/lists"
)

// Protocol is what the load generators of a cell and the servers of a contender spoke.
type Protocol struct {
	Cell      string `json:"cell"`
	Contender string `json:"contender"`
	// Used are the protocols of the requests, such as HTTP/1.1: more than one if trials differ.
	Used []string `json:"used"`
	// Offered are those that the server agreed to in TLS handshakes; absent if unknown.
	Offered []string `json:"offered,omitempty"`
}

// Unused are the protocols that the server offered, and that are newer than those of all
// requests: HTTP/2 after HTTP/1.1.
func (p Protocol) Unused() []string {
	return slices.DeleteFunc(slices.Clone(p.Offered), func(name string) bool {
		return slices.ContainsFunc(p.Used, func(used string) bool { return used >= name })
	})
}

// protocols gathers what the trials say, in the order of cells and contenders.
func (d *Data) protocols() (out []Protocol) {
	type key struct{ cell, contender string }
	used, offered := map[key]map[string]bool{}, map[key]map[string]bool{}
	for _, o := range d.Observations {
		if o.Protocol == nil {
			continue
		}
		k := key{o.Cell, o.Contender}
		lists.Inner(used, k)[o.Protocol.Used] = true
		for _, name := range o.Protocol.Offered {
			lists.Inner(offered, k)[name] = true
		}
	}
	for _, cell := range d.Cells {
		for _, c := range d.Contenders {
			if k := (key{cell.Name, c.Name}); used[k] != nil {
				out = append(out, Protocol{Cell: cell.Name, Contender: c.Name,
					Used: slices.Sorted(maps.Keys(used[k])), Offered: slices.Sorted(maps.Keys(offered[k]))})
			}
		}
	}
	return out
}

// protocolWarnings names the cells in which servers offer a protocol that no request used, and
// those in which the requests to two contenders used different protocols.
func protocolWarnings(all []Protocol) (out []string) {
	for group := range chunkCells(all) {
		used, unused := map[string]bool{}, map[string]bool{}
		var by []string
		for _, p := range group {
			used[strings.Join(p.Used, " and ")] = true
			by = append(by, strings.Join(p.Used, " and ")+" to "+p.Contender)
			for _, name := range p.Unused() {
				unused[name] = true
			}
		}
		names := slices.Sorted(maps.Keys(unused))
		if len(used) > 1 {
			out = append(out, fmt.Sprintf("%s: requests to the contenders used different protocols: %s. The "+
				"difference includes the effect of the protocol.", group[0].Cell, strings.Join(by, ", ")))
		} else if len(names) > 0 {
			out = append(out, fmt.Sprintf("%s: the server offers %s, but every request used %s. The results say nothing "+
				"about %[2]s.", group[0].Cell, strings.Join(names, " and "), strings.Join(group[0].Used, " and ")))
		}
	}
	return out
}

// chunkCells yields the protocols of one cell after another.
func chunkCells(all []Protocol) func(yield func([]Protocol) bool) {
	return func(yield func([]Protocol) bool) {
		for len(all) > 0 {
			n := 1
			for n < len(all) && all[n].Cell == all[0].Cell {
				n++
			}
			if !yield(all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}

// ProtocolText says for each cell which protocol its requests used, cells with the same
// answer together: "HTTP/1.1 (home, https)"; "" if nothing is known.
func (r Results) ProtocolText() string {
	var cells lists.Groups[string, string]
	for group := range chunkCells(r.Protocols) {
		used, unused := map[string]bool{}, map[string]bool{}
		for _, p := range group {
			for _, name := range p.Used {
				used[name] = true
			}
			for _, name := range p.Unused() {
				unused[name] = true
			}
		}
		text := strings.Join(slices.Sorted(maps.Keys(used)), " and ")
		if len(unused) > 0 {
			text += ", although the server offers " + strings.Join(slices.Sorted(maps.Keys(unused)), " and ")
		}
		cells.Add(text, group[0].Cell)
	}
	var out []string
	for text, names := range cells.All() {
		out = append(out, fmt.Sprintf("%s (%s)", text, strings.Join(names, ", ")))
	}
	return strings.Join(out, "; ")
}
