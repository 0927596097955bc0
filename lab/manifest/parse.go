package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/name"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/base/yamltree"
	"bakeoff/judge/analysis"
)

// Parse reads a lab file, checks it against a catalogue, and fills in every
// default. src is YAML 1.2 of at most 1 MiB; file names it in messages.
// profile chooses one of its profiles; "" none.
//
// The error is of kind fault.Invalid and holds Errors: everything that is
// wrong, each with its place.
func Parse(file string, src []byte, cat Catalogue, profile string) (*Lab, error) {
	r := &resolver{checker: checker{Reporter: &yamltree.Reporter{File: file}, bad: map[*yamltree.Node]bool{}}, cat: cat}
	root := yamltree.Parse(src, format, r.Reporter)
	if root == nil {
		return nil, r.Err()
	}
	root = r.sweeps(root)
	r.check(lab(cat), root, "the lab file")
	l := &Lab{Schema: Schema, Path: file, Source: src, Profile: profile}
	if root.Kind == yamltree.Mapping {
		r.lab(l, root)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return l, nil
}

var format = yamltree.Format{Name: "lab", Schema: Schema, Aliases: true}

// resolver makes a Lab of a checked tree. It reads only what was found right,
// and reports what no shape can say.
type resolver struct {
	checker
	cat   Catalogue
	swept map[*yamltree.Node]*analysis.Sweep // contenders that a sweep made
	room  int                                // see sweep
}

// text returns a single value, or "" where it is absent or was found wrong.
func (r *resolver) text(n *yamltree.Node, key string) string {
	v := n.Get(key)
	if r.bad[v] {
		return ""
	}
	return v.String()
}

// sub returns a mapping or list, or nil where it is absent or no such.
func (r *resolver) sub(n *yamltree.Node, key string, k yamltree.Kind) *yamltree.Node {
	if v := n.Get(key); v != nil && v.Kind == k {
		return v
	}
	return nil
}

func (r *resolver) lab(l *Lab, root *yamltree.Node) {
	l.Name = r.text(root, "name")
	r.hosts(l, r.sub(root, "hosts", yamltree.Mapping))
	r.contenders(l, root)
	r.generator(l, root)
	r.cells(l, r.sub(root, "cells", yamltree.Sequence))
	r.variants(l, root)
	r.files(l, root)
	r.volumes(l, root)
	base := sources{r.sub(root, "design", yamltree.Mapping)}
	l.Design = r.design(l, base)
	r.profiles(l, root, base)
	r.fits(l, root)
}

func (r *resolver) texts(n *yamltree.Node) []string {
	return lists.Map(n.Items, func(item *yamltree.Node) string { return item.String() })
}

// unique reports a second item of a list with one name.
func (r *resolver) unique(items []*yamltree.Node, what string, limit int) {
	if len(items) > limit {
		r.fail(items[limit], "split the lab", "there are more than %d %ss", limit, what)
	}
	seen := map[string]int{}
	for _, n := range items {
		at := n.Get("name")
		name := at.String()
		if name == "" || r.bad[at] {
			continue
		}
		if line, ok := seen[name]; ok {
			r.fail(at, "choose another name", "%s %s is already declared in line %d", what, yamltree.Show(name), line)
			continue
		}
		seen[name] = at.Line
	}
}

func (r *resolver) contenders(l *Lab, root *yamltree.Node) {
	n := r.sub(root, "contenders", yamltree.Sequence)
	if n == nil {
		return
	}
	if len(n.Items) == 0 {
		r.fail(n, "write at least the baseline", "contenders is empty")
	}
	r.unique(n.Items, "contender", maxContenders)
	defaults := r.sub(root, "defaults", yamltree.Mapping)
	var all []string
	for _, item := range n.Items {
		if item.Kind != yamltree.Mapping {
			continue
		}
		if at := item.Get("name"); strings.HasSuffix(at.String(), name.TwinSuffix) {
			r.fail(at, "choose another name", "names that end in "+name.TwinSuffix+
				" are reserved for the A/A twin of the baseline")
		}
		c := r.contender(l, item, defaults)
		l.Contenders = append(l.Contenders, c)
		if c.Name != "" { // "" was found wrong already
			all = append(all, c.Name)
		}
	}
	l.Baseline = r.text(root, "baseline")
	if !slices.Contains(all, l.Baseline) {
		l.Baseline = cmp.Or(l.first(l.Baseline), l.Baseline)
	}
	declared := slices.ContainsFunc(n.Items, func(item *yamltree.Node) bool { // if wrongly, another message says so
		return item.Kind == yamltree.Mapping && item.Get("name").String() == l.Baseline
	})
	if l.Baseline != "" && !declared && !slices.Contains(all, l.Baseline) {
		r.fail(root.Get("baseline"), yamltree.Meant(l.Baseline, all), "the baseline %s is not a contender",
			yamltree.Show(l.Baseline))
	}
}

// rate reads bytes a second; 0 where the key is absent.
func (r *resolver) rate(n *yamltree.Node, key string) unit.Bytes {
	v := n.Get(key)
	if v == nil || r.bad[v] {
		return 0
	}
	b, err := unit.ParseBytes(strings.TrimSuffix(v.String(), "/s"))
	if err != nil || b < 4*unit.KiB {
		r.fail(v, "write a rate like 50MB/s", "%s is %s, below the minimum of 4KiB/s", key, yamltree.Show(v.String()))
		return 0
	}
	return b
}

// either returns the value of key in n, or else in the defaults.
func (r *resolver) either(n, defaults *yamltree.Node, key string) *yamltree.Node {
	if v := n.Get(key); v != nil {
		return v
	}
	return defaults.Get(key)
}

// where returns the places of the values of keys in the lab file. They have only
// the name of the file: in a run folder, a full path would disclose facts about
// the user's machine.
func (r *resolver) where(n, defaults *yamltree.Node, keys ...string) map[string]string {
	out := map[string]string{}
	for _, key := range keys {
		if v := r.either(n, defaults, key); v != nil {
			out[key] = fmt.Sprintf("%s:%d:%d", filepath.Base(r.File), v.Line, v.Column)
		}
	}
	return out
}

func (r *resolver) contender(l *Lab, n, defaults *yamltree.Node) Contender {
	c := Contender{Name: r.text(n, "name"), Driver: r.text(n, "driver"), Host: "local", CPUs: 1, Memory: 512 * unit.MiB,
		Sweep: r.swept[n]}
	if h := n.Get("host"); h != nil && !r.bad[h] {
		c.Host = h.String()
		if _, ok := l.Hosts[c.Host]; !ok && c.Host != "local" {
			r.fail(h, yamltree.Meant(c.Host, append(slices.Sorted(maps.Keys(l.Hosts)), "local")), "there is no host %s",
				yamltree.Show(c.Host))
		}
	}
	c.System = r.text(n, "system")
	r.system(l.Hosts[c.Host], c, n)
	if v := r.either(n, defaults, "cpus"); v != nil && !r.bad[v] {
		c.CPUs, _ = strconv.Atoi(v.String())
	}
	c.Where = r.where(n, defaults, "image", "cpus", "memory", "quota", "io", "volumes", "packages")
	if v := r.either(n, defaults, "quota"); v != nil && !r.bad[v] {
		c.Quota, _ = strconv.ParseFloat(v.String(), 64)
	}
	if v := r.either(n, defaults, "io"); v != nil && v.Kind == yamltree.Mapping {
		c.IO = IO{Read: r.rate(v, "read"), Write: r.rate(v, "write")}
	}
	if v := r.either(n, defaults, "memory"); v != nil && !r.bad[v] {
		c.Memory, _ = unit.ParseBytes(v.String())
		if c.Memory < unit.MiB {
			r.fail(v, "write a size like 512MiB", "memory is %s, below the minimum of 1MiB", c.Memory)
		}
	}
	if t := r.sub(n, "tuning", yamltree.Mapping); t != nil {
		c.Tuning = map[string]string{}
		for _, e := range t.Entries {
			c.Tuning[e.Key.Text] = e.Value.String()
		}
	}
	if t := r.sub(n, "env", yamltree.Mapping); t != nil && len(t.Entries) > 0 {
		c.Env = map[string]string{}
		for _, e := range t.Entries {
			c.Env[e.Key.Text] = e.Value.String()
		}
	}
	c.Volumes = r.volumesOf(r.either(n, defaults, "volumes"))
	c.Packages = r.packages(r.either(n, defaults, "packages"))
	if i := slices.IndexFunc(r.cat.Drivers, func(d DriverEntry) bool { return d.Name == c.Driver }); i >= 0 {
		r.driven(&c, r.cat.Drivers[i], n, defaults)
	}
	return c
}

// driven fills in what depends on the driver.
func (r *resolver) driven(c *Contender, d DriverEntry, n, defaults *yamltree.Node) {
	c.Options = r.values(d.Options, n)
	if c.Options.Match(d.OwnSize) && n.Get("memory") == nil {
		c.Memory = 0 // that of other contenders is not asked of it
	}
	switch own := n.Get("image"); {
	case !d.Image && own != nil:
		r.fail(own, "remove it", "driver %s does not use an image", d.Name)
	case c.Options.Match(d.OwnRoot):
		if own != nil {
			r.fail(own, "remove it", "driver %s does not use an image when its options name a root", d.Name)
		}
	case d.Image:
		r.imageOf(c, d, n, r.either(n, defaults, "image"))
	}
	r.tuned(d, n)
	for _, v := range c.Volumes {
		if slices.Contains(d.Backings, v.Backing) || v.Backing == "" {
			continue
		}
		at := n.Get("volumes").Get(v.Path)
		if at == nil {
			at = n // from the defaults
		}
		r.fail(at, "use "+yamltree.OneOf(d.Backings), "driver %s does not support the backing %s of volume %s", d.Name,
			v.Backing, v.Path)
	}
}

// tuned reports settings that environments of a driver cannot have.
func (r *resolver) tuned(d DriverEntry, n *yamltree.Node) {
	t := r.sub(n, "tuning", yamltree.Mapping)
	if t == nil || d.Tunes == nil {
		return
	}
	for _, e := range t.Entries {
		err := d.Tunes(e.Key.Text)
		if err == nil || r.bad[e.Key] {
			continue
		}
		fix := fault.Fix(err)
		r.fail(e.Key, fix, "driver %s: %s", d.Name, fault.Reason(err))
	}
}

// imageOf takes v as the image of a contender that needs one.
func (r *resolver) imageOf(c *Contender, d DriverEntry, n, v *yamltree.Node) {
	example := "image: debian:bookworm"
	if d.Folder {
		example = "image: /path/of/a/root on the host"
	}
	switch {
	case v == nil:
		for _, own := range d.OwnRoot {
			if option, any := strings.CutSuffix(own, "=*"); any {
				example += ", or " + option + ": FILE"
			}
		}
		r.Add(n.Position, "add "+example, "contender %s has no image, and driver %s needs one", yamltree.Show(c.Name), d.Name)
	case r.bad[v]:
	case strings.HasPrefix(v.String(), "/") && !d.Folder:
		r.fail(v, "write "+example, "driver %s does not use a folder as its image", d.Name)
	case strings.HasPrefix(v.String(), "/") && path.Clean(v.String()) != v.String():
		r.fail(v, "write "+path.Clean(v.String()), "the path %s is not in its shortest form", yamltree.Show(v.String()))
	default:
		c.Image = v.String()
		r.suite(v)
		r.reference(v)
		r.added(c, n, v)
	}
}

// added reports packages for an image that bakeoff does not build.
func (r *resolver) added(c *Contender, n, v *yamltree.Node) {
	distro, _, _ := strings.Cut(c.Image, ":")
	if len(c.Packages) == 0 || suites[distro] != nil || path.IsAbs(c.Image) || r.bad[v] {
		return
	}
	at := n.Get("packages")
	if at == nil {
		at = n // from the defaults
	}
	r.fail(at, "use an image that has them, or debian:SUITE or ubuntu:SUITE",
		"bakeoff installs no packages in the image %s",
		yamltree.Show(c.Image))
}

// suites are the known releases of the distributions, by their names. Others may
// appear, so only a name that resembles one of them is taken for a mistake.
var suites = map[string][]string{
	"debian": {"jessie", "stretch", "buster", "bullseye", "bookworm", "trixie", "forky", "duke", "sid",
		"oldstable", "stable", "testing", "unstable", "experimental"},
	"ubuntu": {"trusty", "xenial", "bionic", "focal", "jammy", "noble", "oracular", "plucky", "questing", "resolute"},
}

// suite reports an image of a distribution or of a release that looks misspelled.
func (r *resolver) suite(v *yamltree.Node) {
	distro, suite, ok := strings.Cut(v.String(), ":")
	if !ok {
		return
	}
	fix := ""
	switch known := suites[distro]; {
	case known == nil && r.cat.Image == nil: // otherwise reference reports it
		fix = yamltree.Meant(distro, slices.Sorted(maps.Keys(suites)))
	case known != nil && !slices.Contains(known, suite):
		fix = strings.Replace(yamltree.Meant(suite, known), `"`, `"`+distro+":", 1)
	}
	if strings.HasPrefix(fix, "did you mean") {
		r.fail(v, fix, "there is no image %s", yamltree.Show(v.String()))
	}
}

// releases are the suites of versions, by which images of registries have their tags.
var releases = map[string]string{
	"debian:8": "debian:jessie", "debian:9": "debian:stretch", "debian:10": "debian:buster",
	"debian:11": "debian:bullseye", "debian:12": "debian:bookworm", "debian:13": "debian:trixie",
	"debian:14":    "debian:forky",
	"ubuntu:14.04": "ubuntu:trusty", "ubuntu:16.04": "ubuntu:xenial", "ubuntu:18.04": "ubuntu:bionic",
	"ubuntu:20.04": "ubuntu:focal", "ubuntu:22.04": "ubuntu:jammy", "ubuntu:24.04": "ubuntu:noble",
}

// reference reports an image that no driver could have. Only the catalogue knows which
// names those are.
func (r *resolver) reference(v *yamltree.Node) {
	if r.cat.Image == nil || r.bad[v] || path.IsAbs(v.String()) {
		return
	}
	err := r.cat.Image(v.String())
	if err == nil {
		return
	}
	fix := fault.Fix(err)
	problem := fault.Reason(err)
	name, _, _ := strings.Cut(v.String(), "-") // debian:12-slim
	if suite := releases[name]; suite != "" {
		fix = fmt.Sprintf("did you mean %q? For the image of the registry write docker.io/library/%s", suite, v.String())
	}
	r.fail(v, fix, "%s", problem)
}

func (r *resolver) volumesOf(n *yamltree.Node) []Volume {
	if n == nil || n.Kind != yamltree.Mapping {
		return nil
	}
	var out []Volume
	for _, e := range n.Entries {
		if e.Value.Kind != yamltree.Mapping {
			continue
		}
		v := Volume{Path: e.Key.Text, Backing: r.text(e.Value, "backing"), Device: r.text(e.Value, "device"),
			Pool: r.text(e.Value, "pool")}
		if !r.bad[e.Key] && (path.Clean(v.Path) != v.Path) {
			fix := path.Clean(v.Path)
			if fix == "/" { // which no volume can be at
				fix = "/data"
			}
			r.fail(e.Key, "write "+fix, "the path %s is not in its shortest form", yamltree.Show(v.Path))
		}
		for _, kernel := range []string{"/proc", "/sys", "/dev"} {
			if !r.bad[e.Key] && inside(v.Path, kernel) {
				r.fail(e.Key, "write another path like /data", "a volume at %s would hide files of the kernel in %s", v.Path,
					kernel)
			}
		}
		if s := r.text(e.Value, "size"); s != "" {
			v.Size, _ = unit.ParseBytes(s)
		}
		if t := r.sub(e.Value, "properties", yamltree.Mapping); t != nil {
			v.Properties = map[string]string{}
			for _, p := range t.Entries {
				v.Properties[p.Key.Text] = p.Value.String()
			}
			if !slices.Contains([]string{"file:zfs", "file:btrfs", "dataset", "zvol", "nfs"}, v.Backing) && !r.bad[e.Value] {
				r.fail(e.Value.Get("properties"), "remove them, or use backing: file:zfs, file:btrfs, dataset, zvol or nfs",
					"a volume with the backing %s cannot have properties", v.Backing)
			}
		}
		owned := v.Backing == "dataset" || v.Backing == "zvol"
		file := v.Backing == "tmpfs" || v.Backing == "nfs" || strings.HasPrefix(v.Backing, "file:") || owned
		switch {
		case owned && v.Pool == "" && !r.bad[e.Value]:
			r.fail(e.Value, "add pool: tank/vm, a dataset that zfs list shows", "a volume with the backing %s needs a pool",
				v.Backing)
		case !owned && v.Pool != "":
			r.fail(e.Value.Get("pool"), "remove it, or use backing: dataset or zvol", "a volume with the backing %s cannot "+
				"have a pool",
				v.Backing)
		case file && v.Size == 0 && !r.bad[e.Value]:
			r.fail(e.Value, "add size: 1GiB", "a volume with the backing %s needs a size", v.Backing)
		case v.Backing == "disk" && v.Device == "" && !r.bad[e.Value]:
			r.fail(e.Value, "add device: /dev/disk/by-id/…", "a volume with the backing disk needs a device")
		case v.Backing != "disk" && v.Device != "":
			r.fail(e.Value.Get("device"), "remove it, or use backing: disk", "a volume with the backing %s cannot have a "+
				"device",
				v.Backing)
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b Volume) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// values reads parameters that were checked, over their defaults.
func (r *resolver) values(specs []param.Spec, n *yamltree.Node) param.Values {
	v := param.Values{}
	for _, s := range specs {
		if s.Default != "" {
			// Canonical form, so that a default and the same value written
			// out give one plan.
			if c, err := s.Canonical(s.Default); err == nil {
				v[s.Name] = c
			}
		}
		at := n.Get(s.Name)
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
func (r *resolver) value(s param.Spec, n *yamltree.Node) (string, bool) {
	if s.Kind == param.List {
		return param.Join(r.texts(n)), n.Kind == yamltree.Sequence
	}
	c, err := s.Canonical(n.String())
	return c, err == nil && n.Kind == yamltree.Scalar
}

func (r *resolver) cells(l *Lab, n *yamltree.Node) {
	if n == nil {
		return
	}
	if len(n.Items) == 0 {
		r.fail(n, "write at least one cell", "cells is empty")
	}
	r.unique(n.Items, "cell", maxCells)
	for _, item := range n.Items {
		if item.Kind != yamltree.Mapping {
			continue
		}
		c := Cell{Name: r.text(item, "name"), Workload: r.text(item, "workload"), Primary: []string{}}
		if w, ok := r.cat.workload(c.Workload); ok {
			params := r.sub(item, "params", yamltree.Mapping)
			c.Params = r.values(w.Params, params)
			r.absolute(w, w.Volume, params.Get(w.Volume))
			r.primary(&c, w, item.Get("primary"))
		}
		if p := r.sub(item, "profiles", yamltree.Sequence); p != nil {
			c.Profiles = r.texts(p)
		}
		l.Cells = append(l.Cells, c)
	}
}

func (r *resolver) primary(c *Cell, w WorkloadEntry, n *yamltree.Node) {
	switch {
	case n == nil || r.bad[n]:
	case n.Kind == yamltree.Sequence:
		for _, item := range n.Items {
			if slices.Contains(c.Primary, item.Text) {
				r.fail(item, "remove one of them", "the metric %s is listed twice", item.Text)
			}
			c.Primary = append(c.Primary, item.Text)
		}
	case n.Text == "true":
		for _, m := range w.Metrics {
			if m.Primary {
				c.Primary = append(c.Primary, m.Name)
			}
		}
		if len(c.Primary) == 0 {
			r.fail(n, "list them, as in primary: ["+yamltree.OneOf(metricNames(w))+"]",
				"workload %s has no default primary metric", w.Name)
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
func (r *resolver) volumes(l *Lab, root *yamltree.Node) {
	items := r.sub(root, "contenders", yamltree.Sequence)
	for _, cell := range l.Cells {
		w, _ := r.cat.workload(cell.Workload)
		for _, n := range mappings(items) {
			i := slices.IndexFunc(l.Contenders, func(c Contender) bool { return c.Name == n.Get("name").String() })
			if i < 0 || w.Volume == "" || cell.Name == "" {
				continue // an earlier message reports the name
			}
			where := l.Contenders[i].CellOf(cell).Params[w.Volume]
			if !path.IsAbs(where) || slices.ContainsFunc(l.Contenders[i].Volumes, func(v Volume) bool {
				return inside(where, v.Path)
			}) {
				continue // an earlier message reports the path
			}
			r.Add(n.Position, "add volumes: {"+where+": {backing: …}} to it or to defaults",
				"contender %s has no volume %s, and cell %s needs it", yamltree.Show(l.Contenders[i].Name),
				where, yamltree.Show(cell.Name))
		}
	}
}

// first returns the first node that exists, or else fallback.
func (r *resolver) first(fallback *yamltree.Node, nodes ...*yamltree.Node) *yamltree.Node {
	for _, n := range nodes {
		if n != nil {
			return n
		}
	}
	return fallback
}

func inside(where, volume string) bool {
	return where == volume || strings.HasPrefix(where, volume+"/")
}

// mappings returns the items of a list that are mappings.
func mappings(n *yamltree.Node) []*yamltree.Node {
	var out []*yamltree.Node
	if n != nil {
		for _, item := range n.Items {
			if item.Kind == yamltree.Mapping {
				out = append(out, item)
			}
		}
	}
	return out
}

func seconds(s string) time.Duration {
	d, _ := unit.ParseDuration(s)
	return d
}
