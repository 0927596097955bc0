package preflight

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/provision/driver"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// Unfit is a cell that the environments of some contenders cannot have.
type Unfit struct {
	Cell       string
	Contenders []string
	Err        error // of kind fault.Unsupported, with what to do
}

// Error says which, and why.
func (u Unfit) Error() string {
	return fmt.Sprintf("cell %s cannot run in %s: %v", u.Cell, strings.Join(u.Contenders, ", "), u.Err)
}

// unfitCells lists the cells that contenders cannot have, as far as the workloads know: because
// of the system of the environments, or of a volume.
func (v inspector) unfitCells(ctx context.Context, able func(string) bool) (out []Unfit) {
	for _, c := range v.plan.Contenders {
		d := v.driver(c)
		host, err := v.Way(hostOf(c))
		if d == nil || err != nil || c.System != "" || c.TwinOf != "" || !able(c.Name) {
			continue
		}
		on := environment{c: c, host: host, system: v.systemOf(ctx, d, host, c), rooms: rooms{}}
		on.kernel = on.system == env.SystemOf(host) && !d.Doc().Kernel
		for _, cell := range v.plan.Cells {
			err := v.checkCell(ctx, on, cell)
			if err == nil {
				continue
			}
			i := slices.IndexFunc(out, func(u Unfit) bool { return u.Cell == cell.Name && u.Err.Error() == err.Error() })
			if i < 0 {
				i, out = len(out), append(out, Unfit{Cell: cell.Name, Err: err})
			}
			out[i].Contenders = append(out[i].Contenders, c.Name)
		}
	}
	return out
}

// environment is what is known of the environments of a contender.
type environment struct {
	c      plan.Contender
	host   conn.Conn
	system string // as GOOS names it; "" is unknown
	kernel bool   // theirs is that of the host
	rooms  rooms
}

// checkCell refuses a cell; the cells before it have been checked.
func (v inspector) checkCell(ctx context.Context, e environment, cell plan.Cell) error {
	w := execution.Named(v.Workloads, cell.Workload)
	if w == nil {
		return nil
	}
	doc, params := w.Doc(), e.c.CellOf(cell.Cell).Params
	vol, mounted := volumeIn(e.c, params.Text(doc.Volume))
	on := v.storageOf(ctx, e.c, doc.Volume, params)
	on.System, on.Backing = e.system, vol.Backing
	if e.kernel {
		on.KernelLacks = func(path string) bool {
			return v.askOnce("kernel of "+hostOf(e.c)+" "+path, func() string {
				exit, err := e.host.Exec(ctx, conn.Command("test", "-e", path))
				return fmt.Sprint(err == nil && !exit.OK())
			}) == "true"
		}
	}
	if doc.Refuse != nil {
		if err := doc.Refuse(params, on); err != nil {
			return err
		}
	}
	if doc.Files == nil || !mounted {
		return nil
	}
	return v.checkFilesFit(ctx, e, vol, e.rooms.add(vol.Path, doc, params))
}

// rooms are the files in volumes, by the path of the volume.
type rooms map[string]*manifest.Room

// add adds the files of a cell, and returns what all in the volume take.
func (r rooms) add(at string, doc workload.Doc, params param.Values) unit.Bytes {
	if r[at] == nil {
		r[at] = &manifest.Room{}
	}
	r[at].Add(doc.Name, doc.Files(params))
	return r[at].Total
}

// checkMemory refuses a contender if a cell, with the files in a volume of memory, takes all that
// its environments have: the kernel would end programs of the other cells, or the environment.
func (v inspector) checkMemory(_ context.Context, d driver.Driver, _ conn.Conn, c plan.Contender) error {
	memory, files := v.memoryOf(d, c), rooms{}
	for _, cell := range v.plan.Cells {
		w := execution.Named(v.Workloads, cell.Workload)
		if w == nil {
			continue
		}
		doc, params := w.Doc(), c.CellOf(cell.Cell).Params
		needs, what := unit.Bytes(0), "memory"
		if doc.Allocates != nil {
			needs = unit.Bytes(doc.Allocates(params))
		}
		if vol, ok := volumeIn(c, params.Text(doc.Volume)); ok && doc.Files != nil && vol.Backing == volume.Tmpfs {
			needs += files.add(vol.Path, doc, params)
			what = "memory, with the files in volume " + vol.Path + " (tmpfs)"
		}
		if memory > 0 && needs >= memory {
			return fault.WithFix(fault.New(fault.Unsupported, "cell %s needs %s of %s, but an environment has only %s%s",
				cell.Name, needs, what, wholeMiB(memory), askedAt(c, "memory")), "give it more memory, or make the cell smaller")
		}
	}
	return nil
}

// checkFilesFit refuses files that a volume without a size, or one that needs some room itself,
// cannot hold. The lab file's reader has compared the others.
func (v inspector) checkFilesFit(ctx context.Context, e environment, vol manifest.Volume, files unit.Bytes) error {
	state := v.State(hostOf(e.c))
	switch {
	case vol.Backing == volume.Dir:
		free, err := volume.Free(ctx, e.host, state)
		if err == nil && files > free {
			return fault.WithFix(fault.New(fault.Unsupported, "the files in volume %s need %s in %s, but only %s are free there",
				vol.Path, files, state, wholeMiB(free)),
				"make the cell smaller, or set BAKEOFF_STATE to a folder on a larger disk")
		}
	case vol.Size > 0 && files >= vol.Size && e.system != "" && e.system != "linux":
		return fault.WithFix(fault.New(fault.Unsupported, "the files in volume %s need %s of its %s, but %s also "+
			"stores its own data in a volume", vol.Path, files, vol.Size, e.system), "write a larger size: for the volume")
	}
	return nil
}

// volumeIn is the volume of a contender that contains a path.
func volumeIn(c plan.Contender, at string) (manifest.Volume, bool) {
	for _, vol := range c.Volumes {
		if at == vol.Path || strings.HasPrefix(at, path.Clean(vol.Path)+"/") {
			return vol, true
		}
	}
	return manifest.Volume{}, false
}

// systemOf is the system of a contender's environments, as GOOS names it; "" if it is not known
// before they run.
func (v inspector) systemOf(ctx context.Context, d driver.Driver, host conn.Conn, c plan.Contender) string {
	if g, ok := d.(driver.Guest); ok {
		return g.System(ctx, host, v.specOf(d.Doc(), c))
	}
	on := env.SystemOf(host)
	if onHostsRoot(d.Doc(), c.Contender) || on == "linux" && d.Doc().Image && !d.Doc().Kernel {
		return on
	}
	return ""
}

// memoryOf is what programs in an environment of a contender can have; 0 is unknown.
func (v inspector) memoryOf(d driver.Driver, c plan.Contender) unit.Bytes {
	if doc := d.Doc(); !doc.Whole && doc.Enforces["memory"] != "" {
		return c.Memory
	}
	_, memory, err := v.Size(c.Host)
	if err != nil {
		return 0
	}
	return memory
}
