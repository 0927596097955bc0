package spec

import (
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/yamltree"
)

var (
	compression = lazy.Compile(
		`^(on|off|lz4|lzjb|zle|gzip(-[1-9])?|zstd(-[1-9]|-1[0-9]|-fast(-([1-9]|[1-9]0|100|500|1000))?)?)$`)
	setName    = lazy.Compile(`^[A-Za-z0-9][A-Za-z0-9_.:-]*(/[A-Za-z0-9][A-Za-z0-9_.:-]*)*$`)
	mountpoint = lazy.Compile(`^(none|(/[A-Za-z0-9][A-Za-z0-9_.@+-]*)+)$`)
	property   = lazy.Compile(`^[a-z][a-z0-9_]*([a-z0-9._-]*:[a-z0-9._-]+)?$`)
	propValue  = lazy.Compile(`^[A-Za-z0-9][A-Za-z0-9_.:,@/+%-]*$`)
)

// changed reports whether anything differs from the defaults.
func (p Pool) changed() bool {
	return p.Compression != "lz4" || p.Ashift != 12 || p.Autotrim != "on" || p.Compatibility != "" || len(p.Properties) > 0
}

// pool checks the options of the pool.
func (c checker) pool(s *Spec) {
	p := s.Pool
	c.want(p.Compression, compression, "write lz4, zstd, off or another value of zfsprops(7)", "pool", "compression")
	if p.Ashift < 12 || p.Ashift > 16 {
		c.Add(c.at([]string{"pool", "ashift"}), "write 12 to 16: some disks have larger sectors than they report, and are "+
			"slow with a smaller value",
			"pool.ashift is %d", p.Ashift)
	}
	if p.Autotrim != "on" && p.Autotrim != "off" {
		c.Add(c.at([]string{"pool", "autotrim"}), "write on or off", "pool.autotrim is %s", yamltree.Show(p.Autotrim))
	}
	c.features(s)
	c.properties(s, p.Properties, true, "pool")
}

// ours are the datasets that every recipe makes.
var ours = []string{"ROOT", "home"}

// inside are the folders that belong to a boot environment: without them, an environment that
// is rolled back has programs of one day and the record of its packages of another. Below a
// folder with true, only the folder itself belongs to it.
var inside = map[string]bool{"/": true, "/bin": false, "/boot": false, "/dev": false, "/efi": false, "/etc": false,
	"/home": true, "/lib": false, "/lib64": false, "/proc": false, "/run": false, "/sbin": false, "/sys": false,
	"/usr": false, "/var": true, "/var/lib": true, "/var/lib/apt": false, "/var/lib/dpkg": false, "/var/db": true,
	"/var/db/xbps": false, "/mnt": true}

// outside are exceptions.
var outside = []string{"/usr/local", "/usr/src", "/usr/ports"}

// belongs reports whether a folder must be part of a boot environment.
func belongs(path string) bool {
	for _, o := range outside {
		if path == o || strings.HasPrefix(path, o+"/") {
			return false
		}
	}
	for folder, only := range inside {
		if path == folder || !only && strings.HasPrefix(path, folder+"/") {
			return true
		}
	}
	return false
}

// datasets checks that datasets can be made in order, and take nothing out of the boot
// environments that belongs to them.
func (c checker) datasets(s *Spec) {
	names, mounts := map[string]bool{}, map[string]bool{}
	for _, o := range ours {
		names[o] = true
	}
	for i, d := range s.Datasets {
		at := func(key string) []string { return []string{"datasets", strconv.Itoa(i), key} }
		c.want(d.Name, setName, "write a name below the pool such as var/log", at("name")...)
		c.want(d.Mountpoint, mountpoint, "write a path such as /var/log, or none", at("mountpoint")...)
		parent := d.Name[:max(strings.LastIndexByte(d.Name, '/'), 0)]
		switch {
		case d.Name == "ROOT" || strings.HasPrefix(d.Name, "ROOT/"):
			c.Add(c.at(at("name")), "choose a name outside ROOT", "%s would look like a boot environment", d.Name)
		case names[d.Name]:
			c.Add(c.at(at("name")), "choose another name", "the dataset %s exists already", yamltree.Show(d.Name))
		case parent != "" && !names[parent]:
			c.Add(c.at(at("name")), "list "+parent+" before it, with mountpoint none", "%s has no parent", d.Name)
		}
		switch {
		case belongs(d.Mountpoint):
			c.Add(c.at(at("mountpoint")), "choose a folder such as /var/log, /srv or /home/NAME",
				"%s must be part of the boot environment; otherwise a rollback does not restore it", d.Mountpoint)
		case mounts[d.Mountpoint] && d.Mountpoint != "none":
			c.Add(c.at(at("mountpoint")), "choose another folder", "two datasets are mounted at %s", d.Mountpoint)
		}
		c.properties(s, d.Properties, false, at("properties")[:2]...)
		names[d.Name], mounts[d.Mountpoint] = true, true
	}
	if _, ok := parentsFirst(s.Datasets); !ok {
		c.Add(c.at([]string{"datasets"}), "mount a dataset below its parent, or outside of it",
			"the mountpoint of a dataset is above that of its own parent, and would hide the files of the parent")
	}
}

// parentsFirst orders datasets so that each one comes after its parent, and after that which is mounted above it: it
// would be hidden by one that is mounted later. Otherwise the order stays. It reports whether there is such an order.
func parentsFirst(all []Dataset) (ordered []Dataset, ok bool) {
	below := func(path, above string) bool { return strings.HasPrefix(path, above+"/") }
	rest := slices.Clone(all)
	ordered = all[:0:0]
	for len(rest) > 0 {
		i := slices.IndexFunc(rest, func(d Dataset) bool {
			return !slices.ContainsFunc(rest, func(o Dataset) bool {
				return below(d.Name, o.Name) || below(d.Mountpoint, o.Mountpoint)
			})
		})
		if i < 0 {
			return all, false
		}
		ordered, rest = append(ordered, rest[i]), slices.Delete(rest, i, i+1)
	}
	return ordered, true
}
