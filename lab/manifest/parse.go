package manifest

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
)

// Parse reads a lab file, checks it against a catalogue, and fills in every
// default. src is YAML 1.2 of at most 1 MiB; file names it in messages.
// profile chooses one of its profiles; "" none.
//
// The error is of kind fault.Invalid and holds Errors: everything that is
// wrong, each with its place.
func Parse(file string, src []byte, cat Catalogue, profile string) (*Lab, error) {
	r := &resolver{checker: checker{reporter: &reporter{file: file}, bad: map[*node]bool{}}, cat: cat}
	root := parseTree(src, r.reporter)
	if root == nil {
		return nil, r.err()
	}
	r.check(lab(cat), root, "the lab file")
	l := &Lab{Schema: Schema, Path: file, Source: src, Profile: profile}
	if root.kind == mapping {
		r.lab(l, root)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return l, nil
}

// resolver makes a Lab of a checked tree. It reads only what was found right,
// and reports what no shape can say.
type resolver struct {
	checker
	cat Catalogue
}

// text returns a single value, or "" where it is absent or was found wrong.
func (r *resolver) text(n *node, key string) string {
	v := n.get(key)
	if r.bad[v] {
		return ""
	}
	return textOf(v)
}

// sub returns a mapping or list, or nil where it is absent or no such.
func (r *resolver) sub(n *node, key string, k kind) *node {
	if v := n.get(key); v != nil && v.kind == k {
		return v
	}
	return nil
}

func (r *resolver) lab(l *Lab, root *node) {
	l.Name = r.text(root, "name")
	r.hosts(l, r.sub(root, "hosts", mapping))
	r.contenders(l, root)
	r.generator(l, root)
	r.cells(l, r.sub(root, "cells", sequence))
	r.volumes(l, root)
	base := sources{r.sub(root, "design", mapping)}
	l.Design = r.design(base)
	r.profiles(l, root, base)
}

func (r *resolver) texts(n *node) []string {
	var out []string
	for _, item := range n.items {
		out = append(out, textOf(item))
	}
	return out
}

// unique reports a second item of a list with one name.
func (r *resolver) unique(items []*node, what string, limit int) {
	if len(items) > limit {
		r.fail(items[limit], "split the lab", "more than %d %ss", limit, what)
	}
	seen := map[string]int{}
	for _, n := range items {
		at := n.get("name")
		name := textOf(at)
		if name == "" || r.bad[at] {
			continue
		}
		if line, ok := seen[name]; ok {
			r.fail(at, "give each its own name", "%s %s exists already in line %d", what, show(name), line)
			continue
		}
		seen[name] = at.line
	}
}

func (r *resolver) contenders(l *Lab, root *node) {
	n := r.sub(root, "contenders", sequence)
	if n == nil {
		return
	}
	if len(n.items) == 0 {
		r.fail(n, "write at least the baseline", "there are no contenders")
	}
	r.unique(n.items, "contender", maxContenders)
	defaults := r.sub(root, "defaults", mapping)
	var all []string
	for _, item := range n.items {
		if item.kind != mapping {
			continue
		}
		if at := item.get("name"); strings.HasSuffix(textOf(at), name.TwinSuffix) {
			r.fail(at, "choose another name", "the ending "+name.TwinSuffix+" is reserved for the baseline's A/A twin")
		}
		c := r.contender(l, item, defaults)
		l.Contenders = append(l.Contenders, c)
		if c.Name != "" { // "" was found wrong already
			all = append(all, c.Name)
		}
	}
	l.Baseline = r.text(root, "baseline")
	if l.Baseline != "" && !slices.Contains(all, l.Baseline) {
		r.fail(root.get("baseline"), meant(l.Baseline, all), "the baseline %s is no contender", show(l.Baseline))
	}
}

// rate reads bytes a second; 0 where the key is absent.
func (r *resolver) rate(n *node, key string) unit.Bytes {
	v := n.get(key)
	if v == nil || r.bad[v] {
		return 0
	}
	b, err := unit.ParseBytes(strings.TrimSuffix(textOf(v), "/s"))
	if err != nil || b < 4*unit.KiB {
		r.fail(v, "write 50MB/s", "%s %s is no rate of at least 4KiB/s", key, show(textOf(v)))
		return 0
	}
	return b
}

// either returns the value of key in n, or else in the defaults.
func (r *resolver) either(n, defaults *node, key string) *node {
	if v := n.get(key); v != nil {
		return v
	}
	return defaults.get(key)
}

// where says at which place of the lab file the values of keys stand. The
// file's name is enough of it: in a run folder the whole path would tell
// strangers about somebody's machine.
func (r *resolver) where(n, defaults *node, keys ...string) map[string]string {
	out := map[string]string{}
	for _, key := range keys {
		if v := r.either(n, defaults, key); v != nil {
			out[key] = fmt.Sprintf("%s:%d:%d", filepath.Base(r.file), v.line, v.column)
		}
	}
	return out
}

func (r *resolver) contender(l *Lab, n, defaults *node) Contender {
	c := Contender{Name: r.text(n, "name"), Driver: r.text(n, "driver"), Host: "local", CPUs: 1, Memory: 512 * unit.MiB}
	if h := n.get("host"); h != nil && !r.bad[h] {
		c.Host = textOf(h)
		if _, ok := l.Hosts[c.Host]; !ok && c.Host != "local" {
			r.fail(h, meant(c.Host, append(slices.Sorted(maps.Keys(l.Hosts)), "local")), "there is no host %s", show(c.Host))
		}
	}
	c.System = r.text(n, "system")
	r.system(l.Hosts[c.Host], c, n)
	if v := r.either(n, defaults, "cpus"); v != nil && !r.bad[v] {
		c.CPUs, _ = strconv.Atoi(textOf(v))
	}
	c.Where = r.where(n, defaults, "cpus", "memory", "quota", "io", "volumes")
	if v := r.either(n, defaults, "quota"); v != nil && !r.bad[v] {
		c.Quota, _ = strconv.ParseFloat(textOf(v), 64)
	}
	if v := r.either(n, defaults, "io"); v != nil && v.kind == mapping {
		c.IO = IO{Read: r.rate(v, "read"), Write: r.rate(v, "write")}
	}
	if v := r.either(n, defaults, "memory"); v != nil && !r.bad[v] {
		c.Memory, _ = unit.ParseBytes(textOf(v))
		if c.Memory < unit.MiB {
			r.fail(v, "write 512MiB", "memory %s is less than 1MiB", c.Memory)
		}
	}
	if t := r.sub(n, "tuning", mapping); t != nil {
		c.Tuning = map[string]string{}
		for _, e := range t.entries {
			c.Tuning[e.key.text] = textOf(e.value)
		}
	}
	c.Volumes = r.volumesOf(r.either(n, defaults, "volumes"))
	if i := slices.IndexFunc(r.cat.Drivers, func(d DriverEntry) bool { return d.Name == c.Driver }); i >= 0 {
		r.driven(&c, r.cat.Drivers[i], n, defaults)
	}
	return c
}

// driven fills in what depends on the driver.
func (r *resolver) driven(c *Contender, d DriverEntry, n, defaults *node) {
	c.Options = r.values(d.Options, n)
	switch own := n.get("image"); {
	case !d.Image && own != nil:
		r.fail(own, "remove it", "driver %s takes no image", d.Name)
	case d.OwnRoot != nil && d.OwnRoot(c.Options):
		if own != nil {
			r.fail(own, "remove it", "driver %s takes no image with the root that its options name", d.Name)
		}
	case d.Image:
		r.imageOf(c, d, n, r.either(n, defaults, "image"))
	}
	r.tuned(d, n)
	for _, v := range c.Volumes {
		if slices.Contains(d.Backings, v.Backing) || v.Backing == "" {
			continue
		}
		at := n.get("volumes").get(v.Path)
		if at == nil {
			at = n // from the defaults
		}
		r.fail(at, "it can give "+oneOf(d.Backings), "driver %s cannot give the volume %s the backing %s", d.Name, v.Path, v.Backing)
	}
}

// tuned reports settings that environments of a driver cannot have.
func (r *resolver) tuned(d DriverEntry, n *node) {
	t := r.sub(n, "tuning", mapping)
	if t == nil || d.Tunes == nil {
		return
	}
	for _, e := range t.entries {
		err := d.Tunes(e.key.text)
		if err == nil || r.bad[e.key] {
			continue
		}
		fix := fault.Fix(err)
		r.fail(e.key, fix, "driver %s: %s", d.Name, strings.TrimSuffix(err.Error(), "; "+fix))
	}
}

// imageOf takes v as the image of a contender that needs one.
func (r *resolver) imageOf(c *Contender, d DriverEntry, n, v *node) {
	example := "image: debian:bookworm"
	if d.Folder {
		example = "image: /path/of/a/root on the host"
	}
	switch {
	case v == nil:
		r.add(n.position, "write "+example, "contender %s has no image, which driver %s needs", show(c.Name), d.Name)
	case r.bad[v]:
	case strings.HasPrefix(textOf(v), "/") && !d.Folder:
		r.fail(v, "write "+example, "driver %s makes its root itself, and takes no folder", d.Name)
	case strings.HasPrefix(textOf(v), "/") && path.Clean(textOf(v)) != textOf(v):
		r.fail(v, "write "+path.Clean(textOf(v)), "the path %s is not a plain one", show(textOf(v)))
	default:
		c.Image = textOf(v)
	}
}

func (r *resolver) volumesOf(n *node) []Volume {
	if n == nil || n.kind != mapping {
		return nil
	}
	var out []Volume
	for _, e := range n.entries {
		if e.value.kind != mapping {
			continue
		}
		v := Volume{Path: e.key.text, Backing: r.text(e.value, "backing"), Device: r.text(e.value, "device")}
		if !r.bad[e.key] && (path.Clean(v.Path) != v.Path) {
			r.fail(e.key, "write "+path.Clean(v.Path), "the path %s is not a plain one", show(v.Path))
		}
		if s := r.text(e.value, "size"); s != "" {
			v.Size, _ = unit.ParseBytes(s)
		}
		if t := r.sub(e.value, "properties", mapping); t != nil {
			v.Properties = map[string]string{}
			for _, p := range t.entries {
				v.Properties[p.key.text] = textOf(p.value)
			}
			if v.Backing != "file:zfs" && v.Backing != "file:btrfs" && !r.bad[e.value] {
				r.fail(e.value.get("properties"), "remove them, or write backing: file:zfs or file:btrfs", "a volume backed by %s has properties", v.Backing)
			}
		}
		file := v.Backing == "tmpfs" || strings.HasPrefix(v.Backing, "file:")
		switch {
		case file && v.Size == 0 && !r.bad[e.value]:
			r.fail(e.value, "write size: 1GiB", "a volume backed by %s has no size", v.Backing)
		case v.Backing == "disk" && v.Device == "" && !r.bad[e.value]:
			r.fail(e.value, "write device: /dev/disk/by-id/…", "a volume backed by a disk has no device")
		case v.Backing != "disk" && v.Device != "":
			r.fail(e.value.get("device"), "remove it, or write backing: disk", "a volume backed by %s has a device", v.Backing)
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b Volume) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// values reads parameters that were checked, over their defaults.
func (r *resolver) values(specs []param.Spec, n *node) param.Values {
	v := param.Values{}
	for _, s := range specs {
		if s.Default != "" {
			// Canonical form, so that a default and the same value written
			// out give one plan.
			if c, err := s.Canonical(s.Default); err == nil {
				v[s.Name] = c
			}
		}
		at := n.get(s.Name)
		if at == nil || r.bad[at] {
			continue
		}
		if c, ok := r.value(s, at); ok {
			v[s.Name] = c
		}
	}
	return v
}

// value reads one parameter in canonical text.
func (r *resolver) value(s param.Spec, n *node) (string, bool) {
	if s.Kind == param.List {
		return strings.Join(r.texts(n), "\n"), n.kind == sequence
	}
	c, err := s.Canonical(textOf(n))
	return c, err == nil && n.kind == scalar
}

func (r *resolver) cells(l *Lab, n *node) {
	if n == nil {
		return
	}
	if len(n.items) == 0 {
		r.fail(n, "write at least one", "there are no cells")
	}
	r.unique(n.items, "cell", maxCells)
	for _, item := range n.items {
		if item.kind != mapping {
			continue
		}
		c := Cell{Name: r.text(item, "name"), Workload: r.text(item, "workload"), Primary: []string{}}
		if w, ok := r.cat.workload(c.Workload); ok {
			params := r.sub(item, "params", mapping)
			c.Params = r.values(w.Params, params)
			if params == nil {
				r.required(w, item)
			}
			if at := params.get(w.Volume); w.Volume != "" && at != nil && !path.IsAbs(textOf(at)) {
				r.fail(at, "write an absolute path like /data", "%s is %s, and volumes have absolute paths", w.Volume, show(textOf(at)))
			}
			r.primary(&c, w, item.get("primary"))
		}
		l.Cells = append(l.Cells, c)
	}
}

// required reports parameters without a default in a cell that has no params.
func (r *resolver) required(w WorkloadEntry, cell *node) {
	for _, s := range w.Params {
		if s.Required && s.Default == "" {
			r.add(cell.position, "write params: {"+s.Name+": …}", "a cell with workload %s has no parameter %s", w.Name, s.Name)
		}
	}
}

func (r *resolver) primary(c *Cell, w WorkloadEntry, n *node) {
	switch {
	case n == nil || r.bad[n]:
	case n.kind == sequence:
		for _, item := range n.items {
			if slices.Contains(c.Primary, item.text) {
				r.fail(item, "write it once", "the metric %s is named twice", item.text)
			}
			c.Primary = append(c.Primary, item.text)
		}
	case n.text == "true":
		for _, m := range w.Metrics {
			if m.Primary {
				c.Primary = append(c.Primary, m.Name)
			}
		}
		if len(c.Primary) == 0 {
			r.fail(n, "name them: primary: ["+oneOf(metricNames(w))+"]", "workload %s names no primary metric", w.Name)
		}
	}
}

// metricNames are the metrics of a workload that can get a verdict.
func metricNames(w WorkloadEntry) []string {
	var out []string
	for _, m := range w.Metrics {
		if !m.GeneratorHost {
			out = append(out, m.Name)
		}
	}
	return out
}

func (c Catalogue) workload(name string) (WorkloadEntry, bool) {
	i := slices.IndexFunc(c.Workloads, func(w WorkloadEntry) bool { return w.Name == name })
	if i < 0 {
		return WorkloadEntry{}, false
	}
	return c.Workloads[i], true
}

// volumes reports contenders without the volume that a cell works on: one
// side's disk must never be another's memory.
func (r *resolver) volumes(l *Lab, root *node) {
	items := r.sub(root, "contenders", sequence)
	for _, cell := range l.Cells {
		w, _ := r.cat.workload(cell.Workload)
		where := cell.Params[w.Volume]
		if w.Volume == "" || !path.IsAbs(where) {
			continue // what is no path was found wrong already
		}
		for _, n := range items.mappings() {
			i := slices.IndexFunc(l.Contenders, func(c Contender) bool { return c.Name == textOf(n.get("name")) })
			if i < 0 || slices.ContainsFunc(l.Contenders[i].Volumes, func(v Volume) bool { return inside(where, v.Path) }) {
				continue
			}
			r.add(n.position, "write volumes: {"+where+": {backing: …}} for it, or in defaults",
				"contender %s has no volume %s, which cell %s works on", show(l.Contenders[i].Name), where, show(cell.Name))
		}
	}
}

func inside(where, volume string) bool {
	return where == volume || strings.HasPrefix(where, volume+"/")
}

// mappings returns the items of a list that are mappings.
func (n *node) mappings() []*node {
	var out []*node
	if n != nil {
		for _, item := range n.items {
			if item.kind == mapping {
				out = append(out, item)
			}
		}
	}
	return out
}

// profiles checks every profile and applies the chosen one.
func (r *resolver) profiles(l *Lab, root *node, base sources) {
	n := r.sub(root, "profiles", mapping)
	l.Profiles = []string{}
	if n != nil {
		for _, e := range n.entries {
			l.Profiles = append(l.Profiles, e.key.text)
			if e.value.kind != mapping {
				continue
			}
			chosen := e.key.text == l.Profile
			d := r.design(append(sources{r.sub(e.value, "design", mapping)}, base...))
			if chosen {
				l.Design = d
			}
			every := indexes(l.Cells, func(Cell) bool { return true })
			r.profileParams(l, every, r.sub(e.value, "params", mapping), chosen)
			r.profileCells(l, r.sub(e.value, "cells", mapping), chosen)
			r.profileVolumes(l, r.sub(e.value, "volumes", mapping), chosen)
		}
	}
	slices.Sort(l.Profiles)
	if l.Profile != "" && !slices.Contains(l.Profiles, l.Profile) {
		at := position{1, 1}
		if n != nil {
			at = n.position
		}
		fix := meant(l.Profile, l.Profiles)
		if len(l.Profiles) == 0 {
			fix = "the lab file has no profiles: run it without one"
		}
		r.add(at, fix, "there is no profile %s", show(l.Profile))
	}
}

// indexes are those of the items that f is true of.
func indexes[T any](items []T, f func(T) bool) []int {
	var out []int
	for i, item := range items {
		if f(item) {
			out = append(out, i)
		}
	}
	return out
}

// profileCells sets parameters in the cells that are named.
func (r *resolver) profileCells(l *Lab, n *node, apply bool) {
	if n == nil {
		return
	}
	for _, e := range n.entries {
		of := indexes(l.Cells, func(c Cell) bool { return c.Name == e.key.text })
		if len(of) == 0 {
			var names []string
			for _, c := range l.Cells {
				names = append(names, c.Name)
			}
			r.fail(e.key, meant(e.key.text, names), "there is no cell %s", show(e.key.text))
		} else if e.value.kind == mapping {
			r.profileParams(l, of, e.value, apply)
		}
	}
}

// profileVolumes sets the sizes of volumes.
func (r *resolver) profileVolumes(l *Lab, n *node, apply bool) {
	if n == nil {
		return
	}
	for _, e := range n.entries {
		used := false
		size, _ := unit.ParseBytes(textOf(e.value)) // 0 was found wrong already
		var known []string
		for i, c := range l.Contenders {
			// Contenders may share what defaults says.
			volumes := slices.Clone(c.Volumes)
			for j := range volumes {
				known = append(known, volumes[j].Path)
				if volumes[j].Path == e.key.text && volumes[j].Size > 0 {
					used = true
					volumes[j].Size = size
				}
			}
			if apply && size > 0 {
				l.Contenders[i].Volumes = volumes
			}
		}
		if !used {
			slices.Sort(known)
			r.fail(e.key, meant(e.key.text, slices.Compact(known)), "no contender has a volume %s with a size", show(e.key.text))
		}
	}
}

// profileParams sets parameters in those of the cells whose workload has them.
func (r *resolver) profileParams(l *Lab, of []int, n *node, apply bool) {
	if n == nil {
		return
	}
	for _, e := range n.entries {
		var known []string
		used := false
		for _, i := range of {
			cell := l.Cells[i]
			w, ok := r.cat.workload(cell.Workload)
			if !ok {
				used = true // which parameters it has is not known
			}
			for _, s := range w.Params {
				known = append(known, s.Name)
				if s.Name != e.key.text {
					continue
				}
				used = true
				f := specFields([]param.Spec{s})[0]
				if r.bad[e.value] || !r.check(f.shape, e.value, s.Name+" of workload "+w.Name) {
					continue
				}
				if v, ok := r.value(s, e.value); ok && apply {
					l.Cells[i].Params[s.Name] = v
				}
			}
		}
		if !used {
			slices.Sort(known)
			r.fail(e.key, meant(e.key.text, slices.Compact(known)), "no cell's workload has a parameter %s", show(e.key.text))
		}
	}
}

// Metric returns the metric called name of a workload in the catalogue.
func (c Catalogue) Metric(workload, name string) (sample.Metric, bool) {
	w, _ := c.workload(workload)
	for _, m := range w.Metrics {
		if m.Name == name {
			return m, true
		}
	}
	return sample.Metric{}, false
}

func seconds(s string) time.Duration {
	d, _ := unit.ParseDuration(s)
	return d
}
