package lint

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// maxText bounds a configuration file, in bytes.
const maxText = 1 << 20

// text returns the content of a file of the system, "" if it cannot be read.
func (l *linter) text(name string) string { return readText(l.root, name) }

func readText(root fs.FS, name string) string {
	if root == nil {
		return ""
	}
	name = follow(root, name)
	info, err := fs.Stat(root, name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxText {
		return ""
	}
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return string(data)
}

// follow follows a link, with absolute targets below the root.
func follow(root fs.FS, name string) string {
	for range 8 {
		target, err := fs.ReadLink(root, name)
		if err != nil {
			break
		}
		if !path.IsAbs(target) {
			target = path.Join("/", path.Dir(name), target)
		}
		name = cmp.Or(strings.TrimPrefix(path.Clean(target), "/"), ".")
	}
	return name
}

// leadsNowhere reports whether a file is a link to one that is not below the root.
func (l *linter) leadsNowhere(name string) bool {
	to := follow(l.root, name)
	return to != name && !l.exists(to)
}

// isEmpty reports whether a file of the system has no bytes.
func (l *linter) isEmpty(name string) bool {
	if l.root == nil {
		return false
	}
	info, err := fs.Stat(l.root, name)
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

// exists reports whether the system has a file; a link need not lead anywhere.
func (l *linter) exists(name string) bool {
	if l.root == nil {
		return false
	}
	entries, err := fs.ReadDir(l.root, path.Dir(name))
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == path.Base(name) })
}

// files returns the files of a folder of the system whose names end in suffix, in order.
func files(root fs.FS, folder, suffix string) (out []string) {
	if root == nil {
		return nil
	}
	entries, err := fs.ReadDir(root, folder)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), suffix) {
			out = append(out, path.Join(folder, e.Name()))
		}
	}
	return out
}

// lines returns the lines of a text without comments, spaces around them and empty ones.
func lines(text string) (out []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// shellLines returns the lines of a text as lines does, but joins those that end in a
// backslash or inside quotes with the next one.
func shellLines(text string) (out []string) {
	open := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if open == "" && (line == "" || strings.HasPrefix(line, "#")) {
			continue
		}
		open += line
		_, value, _ := strings.Cut(open, "=")
		switch {
		case strings.HasSuffix(open, `\`):
			open = strings.TrimSuffix(open, `\`) + " "
		case strings.HasPrefix(value, `"`) && strings.Count(value, `"`) == 1,
			strings.HasPrefix(value, "'") && strings.Count(value, "'") == 1:
			open += " "
		default:
			out, open = append(out, open), ""
		}
	}
	if open != "" {
		out = append(out, open)
	}
	return out
}

// assignments returns the variables of a file that a shell would read; += appends.
func assignments(text string, vars map[string]string) map[string]string {
	for _, line := range shellLines(text) {
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		name, more := strings.CutSuffix(strings.TrimPrefix(name, "export "), "+")
		value = unquote(value)
		value = strings.ReplaceAll(strings.ReplaceAll(value, "${"+name+"}", vars[name]), "$"+name, vars[name])
		if more {
			value = vars[name] + value
		}
		vars[name] = value
	}
	return vars
}

// unquote removes quotes around a value, and a comment behind it.
func unquote(s string) string {
	s = strings.TrimSpace(s)
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		if i := strings.IndexByte(s[1:], s[0]); i >= 0 {
			return s[1 : 1+i]
		}
	}
	s, _, _ = strings.Cut(s, " #")
	return strings.TrimSpace(s)
}

// dracutConfig is what the files of dracut say together.
type dracutConfig struct {
	vars map[string]string
	of   map[string]string // the last file that sets a variable
	last string            // the last file
	// joined are the words that arise where one file appends to the last word of another.
	joined map[string]string // the file by word
}

func readDracut(root fs.FS) dracutConfig {
	c := dracutConfig{vars: map[string]string{}, of: map[string]string{}, joined: map[string]string{}}
	// A file in /etc replaces the one of the same name in /usr/lib.
	byName := map[string]string{}
	for _, folder := range []string{"usr/lib/dracut/dracut.conf.d", "etc/dracut.conf.d"} {
		for _, f := range files(root, folder, ".conf") {
			byName[path.Base(f)] = f
		}
	}
	names := []string{}
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	order := []string{"etc/dracut.conf"}
	for _, name := range names {
		order = append(order, byName[name])
	}
	for _, f := range order {
		text := readText(root, f)
		if text == "" {
			continue
		}
		for _, line := range shellLines(text) {
			for name, value := range assignments(line, map[string]string{}) {
				c.of[name] = f
				before := strings.Fields(c.vars[name])
				assignments(line, c.vars)
				for _, word := range strings.Fields(c.vars[name]) {
					if !slices.Contains(before, word) && !slices.Contains(strings.Fields(value), word) {
						c.joined[word] = f
					}
				}
			}
		}
		if strings.HasPrefix(f, "etc/") {
			c.last = f
		}
	}
	return c
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

// hasKey reports whether the key is in a file that does not change.
func (e cryptEntry) hasKey() bool { return strings.HasPrefix(e.key, "/") && !e.random() }

// keyInImage is the path of the key in an image of cryptsetup-initramfs.
func (e cryptEntry) keyInImage() string { return "/cryptroot/keyfiles/" + e.name + ".key" }

// random reports whether each start makes a new key.
func (e cryptEntry) random() bool {
	return slices.Contains([]string{"/dev/urandom", "/dev/random", "/dev/hwrng"}, e.key)
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

// mask returns the value of an option of octal bits, or -1.
func (e fstabEntry) mask(option string) int64 {
	for _, o := range e.options {
		if v, ok := strings.CutPrefix(o, option+"="); ok {
			if n, err := strconv.ParseInt(v, 8, 32); err == nil {
				return n
			}
		}
	}
	return -1
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

// numbers returns the numbers of a version: 6 12 117 of 6.12.117+deb13-amd64.
func numbers(version string) (out []int) {
	for _, f := range strings.FieldsFunc(version, func(r rune) bool { return strings.ContainsRune(".-_+~", r) }) {
		n, err := strconv.Atoi(f)
		if err != nil {
			break
		}
		out = append(out, n)
	}
	return out
}

// release returns a version without what a distribution added: 2.3.9 of 2.3.9-0+deb13u1.
func release(version string) string {
	i := strings.IndexAny(version, "-_+~")
	if i < 0 {
		return version
	}
	return version[:i]
}

// older reports whether a version is known and below a limit.
func older(version, limit string) bool { return version != "" && compareVersions(version, limit) < 0 }

// atLeast reports whether a version is known and not below a limit.
func atLeast(version, limit string) bool {
	return version != "" && compareVersions(version, limit) >= 0
}

// argument returns the last value of a kernel argument.
func argument(cmdline, name string) (value string, ok bool) {
	for f := range strings.FieldsSeq(cmdline) {
		n, v, _ := strings.Cut(f, "=")
		if n == name {
			value, ok = v, true
		}
	}
	return value, ok
}
