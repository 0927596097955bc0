// Package spec reads install.yaml, which says what system a disk gets.
package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/yamltree"
)

// Schema is the value of the key schema.
const Schema = "bakeoff/install/v1"

// DownloadDir is the folder of the rescue system that gets packages, if the specification names none.
const DownloadDir = "/var/tmp/bakeoff-install"

// Recipes are the names of the recipes that exist.
var Recipes = []string{"void-zfs", "debian-zfs", "netbsd-zfs"}

// Spec is an install.yaml. Secrets are references, never values.
type Spec struct {
	Schema     string    `yaml:"schema"`
	Recipe     string    `yaml:"recipe"`
	Release    string    `yaml:"release"`     // of Debian or NetBSD
	Disk       string    `yaml:"disk"`        // below /dev/disk/by-id, or a loop device
	MirrorDisk string    `yaml:"mirror_disk"` // mirrors the pool of disk
	Destroy    []string  `yaml:"destroy"`
	Hostname   string    `yaml:"hostname"`
	Timezone   string    `yaml:"timezone"`
	Keymap     string    `yaml:"keymap"`
	Locale     string    `yaml:"locale"`
	Locales    []string  `yaml:"locales" json:",omitzero"` // more to build; without any, identities are as before them
	Libc       string    `yaml:"libc"`
	Mirror     string    `yaml:"mirror"`
	MirrorKey  string    `yaml:"mirror_key" json:",omitzero"` // of Void: a fingerprint; of Debian: a file
	Sets       []string  `yaml:"sets"`                        // of NetBSD
	SetsDir    string    `yaml:"sets_dir"`
	Init       string    `yaml:"init" json:",omitzero"` // of NetBSD: what happens after the installation
	Downloads  string    `yaml:"download_dir" json:",omitzero"`
	Kernel     string    `yaml:"kernel"`
	KernelArgs []string  `yaml:"kernel_args"`
	Base       Archive   `yaml:"base" json:",omitzero"` // of Debian; without one, identities are as before it
	Modules    Archive   `yaml:"modules"`               // of Debian
	Encryption string    `yaml:"encryption"`            // of the pool: aes-256-gcm or off
	Hibernate  bool      `yaml:"hibernate"`
	SwapGiB    int       `yaml:"swap_gib"` // 0: RAM and an eighth of it
	ESPMiB     int       `yaml:"esp_mib" json:",omitzero"`
	Firmware   string    `yaml:"firmware" json:",omitzero"` // entry, or fallback: EFI/BOOT/BOOTX64.EFI alone
	Microcode  string    `yaml:"microcode"`
	Desktop    bool      `yaml:"desktop"`
	Flatpak    bool      `yaml:"flatpak"`
	Packages   []string  `yaml:"packages"`
	Pool       Pool      `yaml:"pool"`
	Datasets   []Dataset `yaml:"datasets"`
	Bootloader Loader    `yaml:"zfsbootmenu"`
	Secrets    Secrets   `yaml:"secrets"`
	SSHKeys    []string  `yaml:"ssh_keys"` // of root
	Users      []User    `yaml:"users"`
}

// The values of init: the new root becomes that of init, init also restarts, or neither.
const (
	InitPrepare = "prepare"
	InitRestart = "restart"
	InitNone    = "none"
)

// Pool changes how the pool is made.
type Pool struct {
	Compression   string            `yaml:"compression"`
	Ashift        int               `yaml:"ashift"`
	Autotrim      string            `yaml:"autotrim"`
	Compatibility string            `yaml:"compatibility"` // a set of features; "" is that of the recipe
	Properties    map[string]string `yaml:"properties"`    // of its first dataset, which all others inherit
}

// Dataset is one that is kept out of boot environments.
type Dataset struct {
	Name       string            `yaml:"name"`       // below the pool
	Mountpoint string            `yaml:"mountpoint"` // a path, or none
	Properties map[string]string `yaml:"properties"`
}

// Plain reports whether the pool is not encrypted.
func (s *Spec) Plain() bool { return s.Encryption == "off" || s.Recipe == "netbsd-zfs" }

// Loader is the image of ZFSBootMenu, a file on the machine that installs.
type Loader struct {
	File   string `yaml:"file"`
	SHA256 string `yaml:"sha256"`
	// SSHKeys may open the menu over SSH, by an image that the new system builds.
	SSHKeys []string `yaml:"ssh_keys"`
}

// Archive is a file on the machine that gets the system.
type Archive struct {
	File   string `yaml:"file"`
	SHA256 string `yaml:"sha256"`
}

// Secrets are references to secrets: file:PATH, prompt or command:ARGV.
type Secrets struct {
	Pool string `yaml:"pool"` // passphrase of the pool
	Swap string `yaml:"swap"` // passphrase of the swap
	Root string `yaml:"root"` // "root:HASH", as chpasswd -e reads it
}

// User is an account besides root.
type User struct {
	Name     string   `yaml:"name"`
	Groups   []string `yaml:"groups"`
	Password string   `yaml:"password"` // reference to "NAME:HASH", as chpasswd -e reads it
	SSHKeys  []string `yaml:"ssh_keys"`
}

var format = yamltree.Format{Name: "specification", Schema: Schema}

var (
	hostname = lazy.Compile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	word     = lazy.Compile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)
	zone     = lazy.Compile(`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`)
	byID     = lazy.Compile(`^/dev/(disk/by-id/[A-Za-z0-9_.:+#=@-]+|loop[0-9]+)$`)
	bsdDisk  = lazy.Compile(`^/dev/(wd|sd|ld)[0-9]+$`)
	sshKey   = lazy.Compile(`^(ssh-|ecdsa-|sk-)[A-Za-z0-9@.-]+ [A-Za-z0-9+/=]+( [^\x00-\x1f]*)?$`)
	// sshOptions finds a key after options.
	sshOptions = lazy.Compile(`(^|[ "])(ssh-|ecdsa-|sk-)[A-Za-z0-9@.-]+ AAAA`)
	voidKernel = lazy.Compile(`^linux([0-9]+\.[0-9]+|-lts)$`)
	// The package of the headers is called so, too.
	debianKernel = lazy.Compile(`^linux-image-[a-z0-9][a-z0-9.+-]*$`)
	user         = lazy.Compile(`^[a-z_][a-z0-9_-]{0,31}$`)
	url          = lazy.Compile(`^https?://[^\s"']+$`)
	digest       = lazy.Compile(`^[0-9a-f]{64}$`)
	keyFile      = lazy.Compile(`^/[^\s\x00-\x1f\[\]"]+\.asc$`)
	fingerprint  = lazy.Compile(`^([0-9a-f]{2}:){15}[0-9a-f]{2}$`)
	downloads    = lazy.Compile(`^(none|/[^\s\x00-\x1f"]+)$`)
	path         = lazy.Compile(`^/[^\s\x00-\x1f]+$`)
	argument     = lazy.Compile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]*(=[A-Za-z0-9_.,:=/@+-]*)?$`)
	base         = lazy.Compile(`^/([^\s\x00-\x1f]*/)?[A-Za-z0-9][A-Za-z0-9_.-]*\.tar(\.(gz|xz|zst))?$`)
	archive      = lazy.Compile(`^/([^\s\x00-\x1f]*/)?zfs-[0-9.]+\.dkms\.tar\.gz$`)
	secret       = lazy.Compile(`^(prompt|file:/[^\x00-\x1f]+|command:[^\x00-\x1f]+)$`)
)

// Parse reads an install.yaml of at most 1 MiB, and fills in defaults; file
// names it in messages. The error is of kind fault.Invalid and holds
// yamltree.Errors: everything that is wrong, each with its place.
func Parse(file string, src []byte) (*Spec, error) {
	r := &yamltree.Reporter{File: file}
	root := yamltree.Parse(src, format, r)
	if root == nil {
		return nil, r.Err()
	}
	c := checker{r, root}
	if got := root.Get("schema").String(); got != "" && got != Schema { // the keys of another format mean something else
		c.Add(c.at([]string{"schema"}), "write schema: "+Schema, "the schema is %s", yamltree.Show(got))
		return nil, r.Err()
	}
	s := &Spec{Pool: Pool{Compression: "lz4", Ashift: 12, Autotrim: "on"}, Encryption: "aes-256-gcm",
		Keymap: "us", Locale: "en_US.UTF-8", Timezone: "UTC", Libc: "glibc"}
	yamltree.Decode(root, s, r)
	if root.Kind == yamltree.Mapping {
		c.recipe(s)
		s.fill()
		c.check(s)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	s.Datasets, _ = parentsFirst(s.Datasets)
	return s, nil
}

// checker reports values that do not fit.
type checker struct {
	*yamltree.Reporter
	root *yamltree.Node
}

// find returns the value of a key, or that of the nearest key above it; all says which.
func (c checker) find(keys []string) (n *yamltree.Node, all bool) {
	n = c.root
	for _, k := range keys {
		next := n.Get(k)
		if i, err := strconv.Atoi(k); err == nil && n.Kind == yamltree.Sequence && i < len(n.Items) {
			next = n.Items[i]
		}
		if next == nil {
			return n, false
		}
		n = next
	}
	return n, true
}

// at returns the place of a key, or of the nearest mapping that has it not.
func (c checker) at(keys []string) yamltree.Position {
	n, _ := c.find(keys)
	return n.Position
}

// mistyped reports whether the value of a key is of another kind than kind, or one above it is no mapping. Decode
// has reported that.
func (c checker) mistyped(kind yamltree.Kind, keys ...string) bool {
	n, all := c.find(keys)
	if !all {
		kind = yamltree.Mapping
	}
	return n.Kind != kind && n.Kind != yamltree.Null
}

// want reports a value that is missing or does not match.
func (c checker) want(value string, shape *lazy.Regexp, fix string, keys ...string) {
	switch {
	case value == "" && c.mistyped(yamltree.Scalar, keys...):
	case value == "":
		c.Add(c.at(keys), fix, "%s is missing", strings.Join(keys, "."))
	case !shape.MatchString(value):
		// The value is not shown: it may be a secret in the wrong place.
		c.Add(c.at(keys), fix, "%s is not valid", strings.Join(keys, "."))
	}
}

func (c checker) oneOf(value string, all []string, key string) {
	switch {
	case slices.Contains(all, value) || c.mistyped(yamltree.Scalar, key):
	case value == "":
		c.Add(c.at([]string{key}), "use "+yamltree.OneOf(all), "%s is missing", key)
	default:
		c.Add(c.at([]string{key}), "use "+yamltree.OneOf(all), "%s is %s", key, yamltree.Show(value))
	}
}

// recipe checks the name of the recipe. A misspelled one is replaced by what was meant, for the checks of the other
// keys, and one that cannot be guessed by none.
func (c checker) recipe(s *Spec) {
	c.oneOf(s.Recipe, Recipes, "recipe")
	if !slices.Contains(Recipes, s.Recipe) {
		s.Recipe = yamltree.Nearest(s.Recipe, Recipes)
	}
}

// fill fills in the defaults that depend on the recipe.
func (s *Spec) fill() {
	d := map[string]Spec{
		"void-zfs":   {Kernel: "linux-lts", Downloads: DownloadDir},
		"debian-zfs": {Kernel: "linux-image-amd64", Release: "trixie", Mirror: debianMirror},
		"netbsd-zfs": {Kernel: "GENERIC", Release: "11.0", Sets: []string{"base", "comp", "etc", "games", "gpufw", "man",
			"misc", "modules", "rescue", "text"}, Init: InitPrepare},
	}[s.Recipe]
	s.Init = cmp.Or(s.Init, d.Init)
	s.Kernel, s.Release, s.Mirror = cmp.Or(
		s.Kernel,
		d.Kernel,
	), cmp.Or(
		s.Release,
		d.Release,
	), cmp.Or(
		s.Mirror,
		d.Mirror,
	)
	s.Downloads = cmp.Or(s.Downloads, d.Downloads)
	if len(s.Sets) == 0 {
		s.Sets = d.Sets
	}
}

func (c checker) check(s *Spec) {
	if s.Schema == "" && !c.mistyped(yamltree.Scalar, "schema") {
		c.Add(c.root.Position, "begin with schema: "+Schema, "schema is missing")
	}
	c.want(s.Hostname, hostname, remedies[hostname], "hostname")
	c.want(s.Timezone, zone, remedies[zone], "timezone")
	if zone.MatchString(s.Timezone) && !zoneExists(s.Timezone) {
		c.Add(c.at([]string{"timezone"}), remedies[zone], "timezone is not in the database of time zones")
	}
	keymap := keymapOf(s.Recipe)
	c.want(s.Keymap, keymap, remedies[keymap], "keymap")
	c.locales(s)
	c.oneOf(s.Libc, []string{"glibc", "musl"}, "libc")
	c.kernel(s)
	for i, p := range s.Packages {
		at := []string{"packages", strconv.Itoa(i)}
		c.want(p, word, "write the name of a package", at...)
		switch {
		case s.Recipe == "void-zfs" && tooNew(strings.TrimSuffix(p, "-headers")):
			c.Add(c.at(at), "leave it out; kernel chooses the kernel",
				"packages has %s, whose next version may be too new for ZFS", p)
		case s.Recipe == "debian-zfs" && strings.HasSuffix(p, "-"):
			c.Add(c.at(at), "leave it out, or write its name without -",
				"packages has %s: apt takes - at the end for a request to remove the package", yamltree.Show(p))
		}
	}
	c.keys(s.SSHKeys, "ssh_keys")
	switch s.Recipe {
	case "netbsd-zfs":
		c.users(s, false)
		c.netbsd(s)
	case "void-zfs", "debian-zfs":
		c.users(s, true)
		c.linux(s)
	}
}

// tooNew reports whether a package of Void follows the newest series of Linux, which ZFS may not support yet.
func tooNew(name string) bool { return name == "linux" || name == "linux-mainline" }

// kernel checks the package of the kernel. Its headers have a name that follows from it.
func (c checker) kernel(s *Spec) {
	switch {
	case s.Kernel == "":
	case s.Recipe == "void-zfs" && tooNew(s.Kernel):
		c.Add(c.at([]string{"kernel"}), "use linux-lts or a series such as linux6.12",
			"kernel is %s, whose next version may be too new for ZFS", s.Kernel)
	case s.Recipe == "void-zfs":
		c.want(s.Kernel, voidKernel, "write a package such as linux-lts or linux6.12", "kernel")
	case s.Recipe == "debian-zfs":
		c.want(s.Kernel, debianKernel, "write a package such as linux-image-amd64", "kernel")
	default:
		c.want(s.Kernel, word, "write a configuration such as GENERIC", "kernel")
	}
}

// linux checks what void-zfs and debian-zfs have in common.
func (c checker) linux(s *Spec) {
	c.want(s.Disk, byID, remedies[byID], "disk")
	if s.MirrorDisk != "" {
		c.want(s.MirrorDisk, byID, remedies[byID], "mirror_disk")
		if s.MirrorDisk == s.Disk {
			c.Add(c.at([]string{"mirror_disk"}), "name the other disk", "mirror_disk is the same as disk")
		}
		if s.Hibernate {
			c.Add(c.at([]string{"hibernate"}), "leave out hibernate or mirror_disk", "a mirror can start without the disk that "+
				"holds the hibernated system; if that system resumes later, it damages the pool")
		}
	}
	c.want(s.Mirror, url, "write the URL of a repository", "mirror")
	switch {
	case s.MirrorKey == "":
	case s.Recipe == "void-zfs":
		c.want(s.MirrorKey, fingerprint, "write 16 pairs of hexadecimal digits with colons, as in the names of the files "+
			"in /var/db/xbps/keys", "mirror_key")
	default:
		c.file(s, s.MirrorKey, keyFile, remedies[keyFile], "mirror_key")
	}
	if s.Downloads != "" {
		c.file(s, s.Downloads, downloads, "write a folder of the installing system, or none", "download_dir")
	}
	if s.Microcode != "" {
		c.oneOf(s.Microcode, []string{"intel", "amd"}, "microcode")
	}
	c.arguments(s)
	c.archive(s, "base", s.Base, base, "write the path of an archive of mmdebstrap, NAME.tar or NAME.tar.zst")
	c.archive(s, "modules", s.Modules, archive, "write the path of an archive that dkms mktarball made, "+
		"zfs-VERSION.dkms.tar.gz")
	c.size(1, "swap_gib")
	if s.SwapGiB > 0 && s.Secrets.Swap == "" && !s.Hibernate {
		c.Add(c.at([]string{"swap_gib"}), "give secrets.swap, or leave it out",
			"swap_gib is %d, but without secrets.swap the system has no swap", s.SwapGiB)
	}
	least := 260 // of FAT32 on sectors of 4096 bytes
	if s.Recipe == "debian-zfs" && s.Release == "trixie" && s.Bootloader.File == "" {
		least = 1024 // two or three unified kernel images must fit during an update
	}
	c.size(least, "esp_mib")
	if s.Recipe == "debian-zfs" {
		c.oneOf(s.Release, []string{"bookworm", "trixie"}, "release")
	}
	const zbm = "zfsbootmenu"
	if s.Recipe != "debian-zfs" || s.Bootloader.File != "" {
		c.file(s, s.Bootloader.File, path, "write the path of a pinned release", zbm, "file")
		c.want(s.Bootloader.SHA256, digest, "write 64 hexadecimal digits", zbm, "sha256")
	}
	if s.Firmware != "" {
		c.oneOf(s.Firmware, []string{"entry", "fallback"}, "firmware")
	}
	if s.Firmware == "fallback" && s.Recipe == "debian-zfs" && s.Release == "trixie" && s.Bootloader.File == "" {
		c.Add(c.at([]string{"firmware"}), "leave it out, or use ZFSBootMenu",
			"firmware is fallback, but Debian's package systemd-boot makes a boot entry")
	}
	c.keys(s.Bootloader.SSHKeys, zbm, "ssh_keys")
	if len(s.Bootloader.SSHKeys) > 0 && s.Recipe != "void-zfs" {
		c.Add(c.at([]string{zbm, "ssh_keys"}), "leave it out",
			"ssh_keys of ZFSBootMenu are for void-zfs only: Debian has no package that builds its image")
	}
	if len(s.Bootloader.SSHKeys) > 0 && s.Firmware == "fallback" {
		c.Add(c.at([]string{zbm, "ssh_keys"}), "leave out ssh_keys or firmware",
			"only a boot entry starts the image of ZFSBootMenu that has ssh_keys, and firmware: fallback makes no boot entry")
	}
	for key, set := range map[string]bool{"init": s.Init != "", "sets": len(s.Sets) > 0, "sets_dir": s.SetsDir != ""} {
		if set {
			c.Add(c.at([]string{key}), "leave it out", "%s is for netbsd-zfs only", key)
		}
	}
	if s.Recipe == "void-zfs" && s.Release != "" {
		c.Add(c.at([]string{"release"}), "leave it out", "Void Linux has no releases")
	}
	c.pool(s)
	c.datasets(s)
	c.secret(s.Secrets.Root, "secrets", "root")
	c.oneOf(s.Encryption, []string{"aes-256-gcm", "off"}, "encryption")
	if s.Plain() {
		if s.Secrets.Pool != "" {
			c.Add(c.at([]string{"secrets", "pool"}), "leave it out, or leave encryption out",
				"a pool that is not encrypted has no passphrase")
		}
	} else {
		c.secret(s.Secrets.Pool, "secrets", "pool")
	}
	if s.Hibernate || s.Secrets.Swap != "" {
		c.secret(s.Secrets.Swap, "secrets", "swap")
	}
	for key, set := range map[string]bool{"desktop": s.Desktop, "flatpak": s.Flatpak, "libc": s.Libc == "musl"} {
		if set && s.Recipe != "void-zfs" {
			c.Add(c.at([]string{key}), "leave it out", "%s is for void-zfs only", key)
		}
	}
}

func (c checker) netbsd(s *Spec) {
	c.want(s.Disk, bsdDisk, "write a disk such as /dev/wd0", "disk")
	c.file(s, s.SetsDir, path, "write the folder that holds the sets, kernel, ramdisk and SHA512, or with mirror gets "+
		"them", "sets_dir")
	if s.Mirror != "" {
		c.want(s.Mirror, url, "write an address such as https://cdn.netbsd.org/pub/NetBSD", "mirror")
	}
	c.want(s.Release, word, "write a release such as 11.0", "release")
	c.oneOf(s.Init, []string{InitPrepare, InitRestart, InitNone}, "init")
	if len(s.SSHKeys) == 0 && !c.mistyped(yamltree.Sequence, "ssh_keys") {
		c.Add(c.root.Position, "give a public key of root", "ssh_keys is missing: nobody could log in")
	}
	// The plan needs them: etc has rc.conf, and modules has what the loader loads.
	for _, n := range []string{"base", "etc", "modules"} {
		if !slices.Contains(s.Sets, n) {
			c.Add(c.at([]string{"sets"}), "add it, or leave out sets",
				"sets lacks %s, without which the system does not start", n)
		}
	}
	for i, n := range s.Sets {
		c.want(n, word, "write the name of a set", "sets", strconv.Itoa(i))
		if slices.Contains(s.Sets[:i], n) {
			c.Add(c.at([]string{"sets", strconv.Itoa(i)}), "name each set once", "sets has %s twice", yamltree.Show(n))
		}
	}
	for key, set := range map[string]bool{"hibernate": s.Hibernate, "secrets.pool": s.Secrets.Pool != "",
		"secrets.swap": s.Secrets.Swap != "", "secrets.root": s.Secrets.Root != "",
		"desktop": s.Desktop, "flatpak": s.Flatpak, "libc": s.Libc == "musl", "mirror_disk": s.MirrorDisk != "",
		"mirror_key": s.MirrorKey != "", "encryption": s.Encryption != "aes-256-gcm", "datasets": len(s.Datasets) > 0,
		"pool":        s.Pool.changed(),
		"kernel_args": len(s.KernelArgs) > 0, "modules": s.Modules != (Archive{}),
		"base": s.Base != (Archive{}), "packages": len(s.Packages) > 0, "microcode": s.Microcode != "",
		"zfsbootmenu.file": s.Bootloader.File != "", "swap_gib": s.SwapGiB != 0, "firmware": s.Firmware != "",
		"esp_mib":      s.ESPMiB != 0,
		"download_dir": s.Downloads != "", "locales": len(s.Locales) > 0, "locale": s.Locale != "en_US.UTF-8",
		"keymap": s.Keymap != "us"} {
		if set {
			c.Add(c.at(strings.Split(key, ".")), "leave it out", "NetBSD has no %s with this recipe", key)
		}
	}
}

// size checks a size that may be left out. Some readers of YAML take a number that begins with 0 for an octal one.
func (c checker) size(least int, key string) {
	n, there := c.find([]string{key})
	got, err := strconv.Atoi(n.Text)
	if !there || n.Kind != yamltree.Scalar || err != nil { // Decode has reported what is no number
		return
	}
	if got < least || got > 1<<16 || n.Text[0] == '0' {
		c.Add(n.Position, fmt.Sprintf("write %d to 65536, or leave it out", least), "%s is %s", key, n.Text)
	}
}

// archive checks a file of Debian that takes the place of work.
func (c checker) archive(s *Spec, key string, a Archive, pattern *lazy.Regexp, fix string) {
	if a == (Archive{}) {
		return
	}
	c.file(s, a.File, pattern, fix, key, "file")
	c.want(a.SHA256, digest, "write 64 hexadecimal digits", key, "sha256")
	if s.Recipe != "debian-zfs" {
		c.Add(c.at([]string{key}), "leave it out", "%s is for debian-zfs only", key)
	}
}
