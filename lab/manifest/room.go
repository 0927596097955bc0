package manifest

import (
	"fmt"

	"bakeoff/base/unit"
	"bakeoff/base/yamltree"
	"bakeoff/measure/workload"
)

// Room adds up the files that cells keep in one volume while its environment lives.
type Room struct {
	sizes map[string]unit.Bytes // by workload and name
	Total unit.Bytes
}

// Add adds the files of a cell. Cells of one workload share files of the same name.
func (r *Room) Add(of string, f workload.Files) {
	if r.sizes == nil {
		r.sizes = map[string]unit.Bytes{}
	}
	key, size := of+" "+f.Name, unit.Bytes(f.Bytes)
	if old := r.sizes[key]; size > old {
		r.sizes[key] = size
		r.Total += size - old
	}
}

// fits reports files of workloads that are larger than the volume that they are to
// lie in, or too small for the memory beside them.
func (r *resolver) fits(l *Lab, root *yamltree.Node) {
	cells := mappings(r.sub(root, "cells", yamltree.Sequence))
	contenders := mappings(r.sub(root, "contenders", yamltree.Sequence))
	rooms := map[[2]string]*Room{} // by contender and volume
	for i, cell := range l.Cells {
		w, _ := r.cat.workload(cell.Workload)
		if w.Files == nil || i >= len(cells) || r.bad[cells[i]] {
			continue
		}
		for k, c := range l.Contenders {
			params := c.CellOf(cell).Params
			f := w.Files(params)
			at := r.first(cells[i], contenders[k].Get("params").Get(cell.Name).Get(f.Param),
				cells[i].Get("params").Get(f.Param))
			for _, v := range c.Volumes {
				if v.Size == 0 || !inside(params[w.Volume], v.Path) {
					continue
				}
				key := [2]string{c.Name, v.Path}
				if rooms[key] == nil {
					rooms[key] = &Room{}
				}
				before := rooms[key].Total
				rooms[key].Add(w.Name, f)
				why := ""
				switch {
				case exceeds(unit.Bytes(f.Bytes), v):
				case exceeds(rooms[key].Total, v) && !exceeds(before, v):
					why = fmt.Sprintf(", %s with those of the cells before it", rooms[key].Total)
				default:
					continue
				}
				r.fail(at, fmt.Sprintf("write a smaller %s, or a larger size of the volume", f.Param),
					"cell %s keeps %s in files%s, and the volume %s of contender %s has %s", yamltree.Show(cell.Name),
					unit.Bytes(f.Bytes), why, v.Path, yamltree.Show(c.Name), v.Size)
			}
			memory, what := c.Memory, "the memory of contender "+yamltree.Show(c.Name)
			if w.Memory != "" && params[w.Memory] != "" {
				memory, what = unit.Bytes(params.Bytes(w.Memory)), w.Memory
			}
			if least := unit.Bytes(w.FileMemory) * memory; unit.Bytes(f.Bytes) < least {
				r.fail(at, fmt.Sprintf("write %s: %s or more, or less memory", f.Param, least),
					"cell %s writes a file of %s, less than %d times %s (%s), so memory would hold it",
					yamltree.Show(cell.Name), unit.Bytes(f.Bytes), w.FileMemory, what, memory)
			}
		}
	}
}

// exceeds tells whether files are larger than a volume: most file systems take some themselves.
func exceeds(files unit.Bytes, v Volume) bool {
	return v.Size < files || v.Size == files && v.Backing != "tmpfs"
}
