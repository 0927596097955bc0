package lint

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"bakeoff/base/shell"
)

// text returns the content of a file of the system, "" if there is none.
func (l *linter) text(name string) string { return l.root.text(name) }

// exists reports whether the system has a file; a link need not lead anywhere.
func (l *linter) exists(name string) bool { return l.root.exists(name) }

// lines returns the lines of a text without comments, spaces around them and empty ones.
func lines(text string) (out []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// settingOf returns a name for a line of configuration. If a shell would not take it for a name, it is quoted, as
// somebody may paste the line into a command.
func settingOf(name string) string {
	if plain := strings.ReplaceAll(name, "=", ""); shell.Quote(plain) != plain {
		return shell.Quote(name)
	}
	return name
}

// listOf returns names as a list: A, B and C.
func listOf(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// plural returns the text for one thing, or that for several.
func plural(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

// joinLines joins the lines of a text that end in a backslash with the next ones, by a space.
func joinLines(text string) string {
	return strings.NewReplacer("\\\r\n", " ", "\\\n", " ").Replace(text)
}

// dracutConfig is what the files of dracut say together.
type dracutConfig struct {
	vars  map[string]string
	of    map[string]string // the last file that sets a variable
	reset map[string]string // the last file that sets a variable, and forgets its value
	order []string          // of the files
	last  string            // the last file in /etc
	// joined are the words that arise where one file appends to the last word of another.
	joined map[string]string // the file by word
	missed bool              // a file cannot be read
}

func readDracut(root *tree) dracutConfig {
	c := dracutConfig{vars: map[string]string{}, of: map[string]string{}, reset: map[string]string{},
		joined: map[string]string{}}
	// A file in /etc replaces the one of the same name in /usr/lib.
	byName := map[string]string{}
	for _, folder := range []string{"usr/lib/dracut/dracut.conf.d", "etc/dracut.conf.d"} {
		for _, f := range files(root, folder, ".conf") {
			byName[path.Base(f)] = f
		}
	}
	order := []string{"etc/dracut.conf"}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		order = append(order, byName[name])
	}
	for _, f := range order {
		text := root.text(f)
		if text == "" {
			continue
		}
		c.order = append(c.order, f)
		before := maps.Clone(c.vars)
		for _, a := range readAssignments(text, c.vars) {
			c.of[a.name] = f
			if !a.more {
				c.reset[a.name], before[a.name] = f, a.value
				continue
			}
			old := before[a.name]
			last := old[strings.LastIndexFunc(old, unicode.IsSpace)+1:]
			first, _, _ := strings.Cut(strings.Map(space, a.value), " ")
			if last != "" && first != "" {
				c.joined[last+first] = f
			}
			before[a.name] = old + a.value
		}
		if strings.HasPrefix(f, "etc/") {
			c.last = f
		}
	}
	return c
}

// space makes all white space the same.
func space(r rune) rune {
	if unicode.IsSpace(r) {
		return ' '
	}
	return r
}

// modules are the modules that dracut adds.
func (c dracutConfig) modules() []string {
	return strings.Fields(c.vars["add_dracutmodules"] + " " + c.vars["force_add_dracutmodules"] + " " +
		c.vars["dracutmodules"])
}

// items are the files that dracut adds.
func (c dracutConfig) items() []string {
	return strings.Fields(c.vars["install_items"] + " " + c.vars["install_optional_items"])
}

// where returns the file to change for a variable.
func (c dracutConfig) where(name string) string {
	return cmp.Or(c.of[name], c.last, "etc/dracut.conf.d")
}

// cryptEntry is a line of crypttab.
type cryptEntry struct {
	name, source, key string
	options           []string
}

func (e cryptEntry) device() string { return "/dev/mapper/" + e.name }

// hasKey reports whether the key is in a file that stays: one below /run is made at each start.
func (e cryptEntry) hasKey() bool {
	return strings.HasPrefix(e.key, "/") && !e.random() && !within(e.key, "/run")
}

// keyInImage is the path of the key in an image of cryptsetup-initramfs.
func (e cryptEntry) keyInImage() string { return "/cryptroot/keyfiles/" + e.name + ".key" }

// random reports whether each start makes a new key.
func (e cryptEntry) random() bool {
	return slices.Contains([]string{"/dev/urandom", "/dev/random", "/dev/hwrng"}, e.key)
}

// hasOffset reports whether the device begins behind something that stays, such as a small file system with a label.
func (e cryptEntry) hasOffset() bool {
	return slices.ContainsFunc(e.options, func(o string) bool { return strings.HasPrefix(o, "offset=") })
}

func (e cryptEntry) has(option string) bool { return slices.Contains(e.options, option) }

func readCrypttab(text string) (out []cryptEntry) {
	for _, line := range lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		e := cryptEntry{name: f[0], source: strings.ReplaceAll(f[1], `"`, "")}
		if len(f) > 2 && f[2] != "none" && f[2] != "-" {
			e.key, _, _ = strings.Cut(f[2], ":")
		}
		if len(f) > 3 {
			e.options = strings.Split(f[3], ",")
		}
		out = append(out, e)
	}
	return out
}

// fstabEntry is a line of fstab.
type fstabEntry struct {
	source, target, kind string
	options              []string
}

func (e fstabEntry) has(option string) bool { return slices.Contains(e.options, option) }

// fileMask returns the permissions that a FAT file system withholds from its files: the last option counts.
func (e fstabEntry) fileMask() (mask int64) {
	for _, o := range e.options {
		if name, v, _ := strings.Cut(o, "="); name == "umask" || name == "fmask" {
			if n, err := strconv.ParseInt(v, 8, 32); err == nil {
				mask = n
			}
		}
	}
	return mask
}

func readFstab(text string) (out []fstabEntry) {
	for _, line := range lines(text) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		e := fstabEntry{source: strings.ReplaceAll(f[0], `"`, ""), target: f[1], kind: f[2]}
		if len(f) > 3 {
			e.options = strings.Split(f[3], ",")
		}
		out = append(out, e)
	}
	return out
}

// keyFile returns the path of a location file:///PATH.
func keyFile(location string) (string, bool) { return strings.CutPrefix(location, "file://") }

// compareVersions compares versions by the numbers in them; what follows a letter does
// not count, except that a version with fewer numbers is the older one.
func compareVersions(a, b string) int { return slices.Compare(numbers(a), numbers(b)) }

// numbers returns the numbers of a version: 6 12 117 of 6.12.117+deb13-amd64. A name before
// them, as in zfs-2.4.1 and v3.1.0, and an epoch, as in 2:2.6.1, do not count.
func numbers(version string) (out []int) {
	if _, v, ok := strings.Cut(version, ":"); ok {
		version = v
	}
	version = version[max(0, strings.IndexAny(version, "0123456789")):]
	for _, f := range strings.FieldsFunc(version, func(r rune) bool { return strings.ContainsRune(".-_+~", r) }) {
		n, err := strconv.Atoi(f)
		if err != nil {
			break
		}
		out = append(out, n)
	}
	return out
}

// release returns a version without what a distribution added: 2.3.9 of zfs-2.3.9-0+deb13u1.
func release(version string) string {
	version = version[max(0, strings.IndexAny(version, "0123456789")):]
	i := strings.IndexAny(version, "-_+~")
	if i < 0 {
		return version
	}
	return version[:i]
}

// older reports whether a version is known and below a limit.
func older(version, limit string) bool {
	return len(numbers(version)) > 0 && compareVersions(version, limit) < 0
}

// atLeast reports whether a version is known and not below a limit.
func atLeast(version, limit string) bool {
	return len(numbers(version)) > 0 && compareVersions(version, limit) >= 0
}

// kernelWords returns the arguments of a kernel, without their double quotes.
func kernelWords(cmdline string) (out []string) {
	var word strings.Builder
	quoted := false
	for _, r := range cmdline + " " {
		switch {
		case r == '"':
			quoted = !quoted
		case quoted || !unicode.IsSpace(r):
			word.WriteRune(r)
		case word.Len() > 0:
			out = append(out, word.String())
			word.Reset()
		}
	}
	return out
}

// argument returns the last value of a kernel argument.
func argument(cmdline, name string) (value string, ok bool) {
	for _, f := range kernelWords(cmdline) {
		n, v, _ := strings.Cut(f, "=")
		if n == name {
			value, ok = v, true
		}
	}
	return value, ok
}
