package preflight

import (
	"context"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/provision/driver"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// checkCells refuses a contender whose environments cannot have a cell, as far as its workload
// knows: because of their system, of a volume, or of their memory.
func (v inspector) checkCells(ctx context.Context, d driver.Driver, host conn.Conn, c plan.Contender) error {
	system := v.systemOf(ctx, d, host, c)
	rooms := map[string]*manifest.Room{} // by volume
	for _, cell := range v.plan.Cells {
		w := execution.Named(v.Workloads, cell.Workload)
		if w == nil {
			continue
		}
		doc, params := w.Doc(), c.CellOf(cell.Cell).Params
		vol, mounted := volumeIn(c, params.Text(doc.Volume))
		on := v.storageOf(ctx, c, doc.Volume, params)
		on.System, on.Backing = system, vol.Backing
		if doc.Refuse != nil {
			if err := doc.Refuse(params, on); err != nil {
				return fault.Op("cell "+cell.Name, err)
			}
		}
		needs, what := unit.Bytes(0), "memory"
		if doc.Allocates != nil {
			needs = unit.Bytes(doc.Allocates(params))
		}
		if doc.Files != nil && mounted {
			if rooms[vol.Path] == nil {
				rooms[vol.Path] = &manifest.Room{}
			}
			files := rooms[vol.Path]
			files.Add(doc.Name, doc.Files(params))
			if err := v.checkFilesFit(ctx, host, c, system, vol, files.Total); err != nil {
				return fault.Op("cell "+cell.Name, err)
			}
			if vol.Backing == volume.Tmpfs {
				needs, what = needs+files.Total, "memory, with the files in volume "+vol.Path+" (tmpfs)"
			}
		}
		if memory := v.memoryOf(d, c); memory > 0 && needs >= memory {
			return fault.WithFix(fault.New(fault.Unsupported, "cell %s needs %s of %s, and an environment has %s%s", cell.Name,
				needs, what, wholeMiB(memory), askedAt(c, "memory")), "give it more memory, or make the cell smaller")
		}
	}
	return nil
}

// checkFilesFit refuses files that a volume without a size, or one that needs some room itself,
// cannot hold. The lab file's reader has compared the others.
func (v inspector) checkFilesFit(ctx context.Context, host conn.Conn, c plan.Contender, system string,
	vol manifest.Volume, files unit.Bytes) error {
	switch {
	case vol.Backing == volume.Dir:
		free, err := volume.Free(ctx, host, v.State(hostOf(c)))
		if err == nil && files > free {
			return fault.WithFix(fault.New(fault.Unsupported, "the files in volume %s take %s below %s, where %s are free",
				vol.Path, files, v.State(hostOf(c)), wholeMiB(free)),
				"make the cell smaller, or set BAKEOFF_STATE to a folder on a larger disk")
		}
	case vol.Size > 0 && files >= vol.Size && system != "" && system != "linux":
		return fault.WithFix(fault.New(fault.Unsupported, "the files in volume %s take %s of its %s, and %s keeps data of "+
			"its own in a volume, too", vol.Path, files, vol.Size, system), "write a larger size of the volume")
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
