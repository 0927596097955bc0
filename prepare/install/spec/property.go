package spec

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/yamltree"
)

// settable are the properties of file systems that a specification may set, with the values that
// OpenZFS 2.1 and later accept. Source: zfsprops(7) and module/zcommon/zfs_prop.c of OpenZFS.
var settable = map[string]*lazy.Regexp{
	"aclinherit": lazy.Compile(`^(discard|noallow|restricted|passthrough(-x)?)$`),
	"aclmode":    lazy.Compile(`^(discard|groupmask|passthrough|restricted)$`),
	"acltype":    lazy.Compile(`^(off|noacl|nfsv4|posix|posixacl)$`),
	"atime":      onOff, "canmount": onOff, "casesensitivity": lazy.Compile(`^(sensitive|insensitive|mixed)$`),
	"checksum": lazy.Compile(`^(on|off|fletcher[24]|sha256|sha512|skein|edonr|blake3)$`), "compression": compression,
	"copies":    lazy.Compile(`^[123]$`),
	"dedup":     lazy.Compile(`^(on|off|verify|(sha256|sha512|skein|blake3)(,verify)?|edonr,verify)$`),
	"devices":   onOff,
	"dnodesize": lazy.Compile(`^(legacy|auto|1k|2k|4k|8k|16k)$`),
	"exec":      onOff, "filesystem_limit": count, "logbias": lazy.Compile(`^(latency|throughput)$`),
	"normalization": lazy.Compile(`^(none|form(C|D|KC|KD))$`), "overlay": onOff, "primarycache": cached, "quota": size,
	"recordsize": lazy.Compile(
		`^(512|1024|2048|4096|8192|16384|32768|65536|131072|(1|2|4|8|16|32|64|128|256|512)[kK]|1[mM])$`),
	"redundant_metadata": lazy.Compile(`^(all|most|some|none)$`), "refquota": size, "refreservation": size,
	"relatime": onOff, "reservation": size, "secondarycache": cached, "setuid": onOff,
	"snapdir": lazy.Compile(`^(hidden|visible)$`), "snapshot_limit": count,
	"sync": lazy.Compile(`^(standard|always|disabled)$`), "utf8only": onOff, "xattr": lazy.Compile(`^(on|off|sa|dir)$`),
}

var (
	onOff  = lazy.Compile(`^(on|off)$`)
	cached = lazy.Compile(`^(all|none|metadata)$`)
	count  = lazy.Compile(`^(none|[1-9][0-9]{0,15})$`)
	size   = lazy.Compile(`^(none|[1-9][0-9]{0,15}(\.[0-9]{1,3})?[KMGTPkmgtp]?)$`)
)

// Bytes returns the size that a value of a property such as quota names; ok is false for none and other words.
func Bytes(value string) (n float64, ok bool) {
	if !size.MatchString(value) || value == "none" {
		return 0, false
	}
	unit := strings.IndexByte("KMGTP", strings.ToUpper(value)[len(value)-1])
	n, _ = strconv.ParseFloat(strings.TrimRight(value, "KMGTPkmgtp"), 64) // which size matches
	return n * float64(int64(1)<<(10*(unit+1))), true
}

// unsuitable are the properties that would stop the installation after the disk was wiped, and those that the
// recipes or other keys set.
var unsuitable = map[string]string{"encryption": "the pool is encrypted as a whole",
	"keyformat": "the pool has one key", "keylocation": "the pool has one key", "pbkdf2iters": "the pool has one key",
	"mountpoint": "the key mountpoint sets it", "readonly": "the installation could not write to it",
	"jailed": "the system could not mount it", "zoned": "the system could not mount it",
	"sharenfs": "the installing system would share it; set it in the new system",
	"sharesmb": "the installing system would share it; set it in the new system",
	"volsize":  "only a volume has it", "volblocksize": "only a volume has it", "volmode": "only a volume has it",
	"volthreading": "only a volume has it", "snapdev": "only a volume has it"}

// rootNeeds are the values with which the root of a system works; it inherits the properties of the first
// dataset of the pool.
var rootNeeds = map[string]struct {
	values *lazy.Regexp
	why    string
}{
	"exec":            {lazy.Compile(`^on$`), "no program of the new system would start"},
	"setuid":          {lazy.Compile(`^on$`), "su and sudo of the new system would not work"},
	"xattr":           {lazy.Compile(`^(on|sa|dir)$`), "packages set capabilities of programs as extended attributes"},
	"casesensitivity": {lazy.Compile(`^sensitive$`), "packages have files whose names differ only in case"},
}

// properties checks the properties of the dataset at a key. root: the root of the system inherits them.
func (c checker) properties(s *Spec, all map[string]string, root bool, at ...string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		where, value := append(slices.Clone(at), "properties", name), all[name]
		why, refused := unsuitable[name]
		if root && name == "compression" || root && name == "canmount" {
			why, refused = map[string]string{"compression": "pool.compression sets it",
				"canmount": "the first dataset of the pool is not mounted"}[name], true
		}
		if strings.HasPrefix(name, "org.zfsbootmenu:") {
			why, refused = "the recipe sets it", true
		}
		values, known := settable[name]
		needs, rooted := rootNeeds[name]
		switch {
		case refused:
			c.Add(c.at(where), "leave it out", "%s cannot be set here: %s", yamltree.Show(name), why)
		case !property.MatchString(name):
			c.Add(c.at(where), "write a property of zfs such as recordsize", "%s is not the name of a property",
				yamltree.Show(name))
		case strings.Contains(name, ":"):
			c.want(value, propValue, "write a value that zfs set accepts", where...)
		case !known:
			fix := "leave it out, and set it in the new system if its ZFS knows the property"
			if meant := yamltree.Nearest(name, slices.Sorted(maps.Keys(settable))); meant != "" {
				fix = "did you mean " + strconv.Quote(meant) + "?"
			}
			c.Add(c.at(where), fix, "%s is not a property that every OpenZFS since 2.1 knows", yamltree.Show(name))
		case name == "canmount" && value == "noauto":
			c.Add(c.at(where), "write on or off", "canmount is %s", yamltree.Show(value))
		case !values.MatchString(value):
			c.want(value, values, "write a value of zfsprops(7)", where...)
		case root && rooted && !needs.values.MatchString(value):
			c.Add(c.at(where), "leave it out, or set it for a dataset of datasets",
				"%s=%s does not suit the root of a system: %s", name, value, needs.why)
		default:
			c.feature(s, featureOf(name, value), strings.Join(where, "."), where...)
		}
	}
}

// featureOf is the feature of the pool without which zfs refuses a value; "" if it needs none.
func featureOf(name, value string) string {
	algorithm, _, _ := strings.Cut(value, ",")
	algorithms, big := []string{"sha512", "skein", "edonr", "blake3"}, []string{"256k", "512k", "1m"}
	switch {
	case name == "compression" && strings.HasPrefix(value, "zstd"):
		return "zstd_compress"
	case (name == "checksum" || name == "dedup") && slices.Contains(algorithms, algorithm):
		return algorithm
	case name == "dnodesize" && value != "legacy":
		return "large_dnode"
	case name == "recordsize" && slices.Contains(big, strings.ToLower(value)):
		return "large_blocks"
	case strings.HasSuffix(name, "_limit") && value != "none":
		return "filesystem_limits"
	}
	return ""
}

// feature reports that the set of features of the pool lacks one that the value of a key needs.
func (c checker) feature(s *Spec, name, key string, where ...string) {
	set, known := featureSets[s.FeatureSet()]
	if name == "" || !known || slices.Contains(strings.Fields(set.has), name) {
		return
	}
	if s.Pool.Compatibility != "" {
		where = []string{"pool", "compatibility"}
	}
	c.Add(c.at(where), "choose another set, or another value of "+key,
		"the set of features %s lacks %s, which the value of %s needs", s.FeatureSet(), name, key)
}

// featureSet is a file of compatibility.d: the first version of OpenZFS that has the set under this name, and
// those of its features that a specification can need.
type featureSet struct{ since, has string }

const (
	blocksLimits = "filesystem_limits large_blocks"
	digests      = blocksLimits + " sha512 skein"
	dnodes       = digests + " edonr large_dnode"
	encrypted    = dnodes + " encryption"
	withZstd     = encrypted + " zstd_compress"
	onFreeBSD    = digests + " large_dnode encryption zstd_compress"
	withBlake3   = withZstd + " blake3"
)

// featureSets are the sets by name. Source: cmd/zpool/compatibility.d and the links of cmd/zpool/Makefile.am in
// OpenZFS 2.1.11, 2.3.9 and 2.4.4.
var featureSets = map[string]featureSet{
	"zol-0.6.1": {"2.1", ""}, "zol-0.6.4": {"2.1", ""}, "zol-0.6.5": {"2.1", blocksLimits},
	"zol-0.7": {"2.1", dnodes}, "zol-0.8": {"2.1", encrypted}, "grub2": {"2.1", blocksLimits},
	"grub2-2.06": {"2.2", ""}, "grub2-2.12": {"2.2", blocksLimits}, "freebsd-11.0": {"2.1", digests},
	"freebsd-11.1": {"2.1", digests}, "freebsd-11.2": {"2.1", digests}, "freebsd-11.3": {"2.1", digests},
	"freebsd-11.4": {"2.1", digests}, "freebsd-12.0": {"2.1", digests}, "freebsd-12.1": {"2.1", digests},
	"freebsd-12.2": {"2.1", digests}, "freebsd-12.3": {"2.2", digests}, "freebsd-12.4": {"2.2", digests},
	"freebsd-13.0": {"2.2", onFreeBSD}, "freebsd-13.1": {"2.2", onFreeBSD}, "freebsd-13.2": {"2.2", onFreeBSD},
	"openzfsonosx-1.7.0": {"2.1", digests + " edonr"}, "openzfsonosx-1.8.1": {"2.1", digests + " edonr"},
	"openzfsonosx-1.9.3": {"2.1", encrypted}, "openzfsonosx-1.9.4": {"2.1", encrypted},
	"openzfs-2.0-freebsd": {"2.1", onFreeBSD}, "openzfs-2.0-linux": {"2.1", withZstd},
	"openzfs-2.1-freebsd": {"2.1", onFreeBSD}, "openzfs-2.1-linux": {"2.1", withZstd},
	"openzfs-2.2": {"2.2", withBlake3}, "openzfs-2.2-linux": {"2.2", withBlake3},
	"openzfs-2.2-freebsd": {"2.2", withBlake3}, "openzfs-2.3": {"2.3", withBlake3},
	"openzfs-2.3-linux": {"2.3", withBlake3}, "openzfs-2.3-freebsd": {"2.3", withBlake3},
	"openzfs-2.4": {"2.4", withBlake3}, "openzfs-2.4-linux": {"2.4", withBlake3},
	"openzfs-2.4-freebsd": {"2.4", withBlake3},
}

// FeatureSet is the set of features that the pool may use. The boot loader and the new system can read it.
func (s *Spec) FeatureSet() string {
	switch {
	case s.Pool.Compatibility != "":
		return s.Pool.Compatibility
	case s.Recipe == "debian-zfs" && s.Release == "bookworm":
		return "openzfs-2.1-linux" // it has 2.1.11
	}
	return "openzfs-2.2-linux"
}

// FeatureSetSince is the first version of OpenZFS that has the set of FeatureSet.
func (s *Spec) FeatureSetSince() string { return featureSets[s.FeatureSet()].since }

// features checks the set of features of the pool, and that it has what the specification needs. The loaders of
// debian-zfs are of the version of the release too, or of a later one.
func (c checker) features(s *Spec) {
	reads, zfs := "ZFSBootMenu 3.1", "2.4"
	if s.Recipe == "debian-zfs" {
		reads, zfs = "Debian 13", "2.3"
		if s.Release == "bookworm" {
			reads, zfs = "Debian 12", "2.1"
		}
	}
	var known []string
	for name, set := range featureSets {
		if set.since <= zfs {
			known = append(known, name)
		}
	}
	slices.Sort(known)
	slices.Reverse(known) // of names that are equally near, the newest set is meant
	if p := s.Pool.Compatibility; p != "" && !slices.Contains(known, p) {
		fix := "use openzfs-" + zfs + "-linux"
		if meant := yamltree.Nearest(p, known); meant != "" && featureSets[p].since == "" {
			fix = "did you mean " + strconv.Quote(meant) + "?"
		}
		c.Add(c.at([]string{"pool", "compatibility"}), fix, "OpenZFS %s of %s does not know the features of %s", zfs, reads,
			yamltree.Show(p))
		return
	}
	if !s.Plain() {
		c.feature(s, "encryption", "encryption", "encryption")
	}
	c.feature(s, featureOf("compression", s.Pool.Compression), "pool.compression", "pool", "compression")
}
