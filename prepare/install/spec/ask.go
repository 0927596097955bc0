package spec

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
)

// Question is one thing that a specification needs to know.
type Question struct {
	Key     string // in install.yaml: "zfsbootmenu.file"
	Text    string
	Default string // "" must be answered, unless Optional
	// Optional questions may be left without an answer, and the key is left out.
	Optional bool
	shape    *lazy.Regexp
	list     bool // words, separated by spaces
	when     func(answers map[string]string) bool
}

var (
	yesNo   = lazy.Compile(`^(yes|no)$`)
	number  = lazy.Compile(`^[1-9][0-9]{0,4}$`)
	cpu     = lazy.Compile(`^(intel|amd)$`)
	ciphers = lazy.Compile(`^(aes-256-gcm|off)$`)
	libcs   = lazy.Compile(`^(glibc|musl)$`)
	suites  = lazy.Compile(`^(bookworm|trixie)$`)
)

// remedies say what to write for values that do not match.
var remedies = map[*lazy.Regexp]string{
	byID: "write a path below /dev/disk/by-id, or a loop device such as /dev/loop0; losetup --find --show FILE makes a " +
		"loop device of a disk image",
	bsdDisk:      "write a disk such as /dev/wd0",
	hostname:     "write lower case letters, digits and -",
	zone:         "write a zone such as Europe/Rome",
	word:         "write a word such as us",
	debianKeymap: "write a layout of XKB such as us or de, or a keymap that Debian translates, such as de-latin1",
	localeName:   "write a locale of glibc such as en_US.UTF-8",
	localeLine:   "write a locale of glibc such as de_DE.UTF-8, or with its character set, such as en_US ISO-8859-1",
	path:         "write an absolute path without spaces",
	digest:       "write 64 hexadecimal digits, as sha256sum prints them",
	secret:       "write prompt, file:/PATH or command:ARGV",
	yesNo:        "write yes or no",
	sshKey:       "write a public key such as ssh-ed25519 AAAA… name",
	url:          "write an address that begins with https:// or http://",
	cpu:          "write intel or amd",
	ciphers:      "write aes-256-gcm or off",
	libcs:        "write glibc or musl",
	suites:       "write bookworm or trixie",
	keyFile:      "write the path of a public key in ASCII armor, NAME.asc; gpg --armor --export makes one",
}

// voidMirror is the repository of Void for glibc, which has that for musl in a folder.
const voidMirror = "https://repo-default.voidlinux.org/current"

const debianMirror = "http://deb.debian.org/debian"

// Questions are those of a recipe, in order.
func Questions(recipe string) []Question {
	const ref = "a reference: prompt, file:PATH or command:ARGV"
	yes := func(key string) func(map[string]string) bool {
		return func(a map[string]string) bool { return a[key] == "yes" }
	}
	first := []Question{
		{Key: "disk", Text: "Disk that gets the system, below /dev/disk/by-id", shape: byID},
		{Key: "mirror_disk", Text: "Second disk, to mirror it", Optional: true, shape: byID},
		{Key: "destroy", Text: "Signatures on the disk that bakeoff may destroy (gpt PMBR vfat " +
			"…)", Optional: true, shape: word,
			list: true},
		{Key: "hostname", Text: "Name of the machine", shape: hostname},
		{Key: "timezone", Text: "Time zone", Default: "UTC", shape: zone},
		{Key: "keymap", Text: "Keymap", Default: "us", shape: keymapOf(recipe)},
		{Key: "locale", Text: "Locale", Default: "en_US.UTF-8", shape: localeName},
	}
	swap := []Question{
		{Key: "encryption", Text: "Encryption of the pool, aes-256-gcm or off", Default: "aes-256-gcm", shape: ciphers},
		{Key: "secrets.pool", Text: "Passphrase of the pool, " + ref, Default: "prompt", shape: secret,
			when: func(a map[string]string) bool { return a["encryption"] != "off" }},
		{Key: "hibernate", Text: "Hibernation", Default: "no", shape: yesNo,
			when: func(a map[string]string) bool { return a["mirror_disk"] == "" }},
		{
			Key:     "secrets.swap",
			Text:    "Passphrase of the swap, " + ref,
			Default: "prompt",
			shape:   secret,
			when:    yes("hibernate"),
		},
		{
			Key:      "swap_gib",
			Text:     "GiB of swap; without an answer, the RAM plus an eighth",
			Optional: true,
			shape:    number,
			when:     yes("hibernate"),
		},
		{Key: "microcode", Text: "Microcode, intel or amd", Optional: true, shape: cpu},
	}
	loader := []Question{
		{Key: "zfsbootmenu.file", Text: "File of a pinned release of ZFSBootMenu", shape: path},
		{Key: "zfsbootmenu.sha256", Text: "Its SHA-256", shape: digest},
	}
	// The groups that a system has for those who administer it, and for sound and graphics.
	groups := administrators[recipe]
	if recipe != "netbsd-zfs" {
		groups += " audio video"
	}
	last := []Question{
		{Key: "packages", Text: "More packages", Optional: true, shape: word, list: true},
		{Key: "secrets.root", Text: "root:HASH, with HASH of openssl passwd -6 or mkpasswd, " + ref,
			Default: "prompt", shape: secret},
		{Key: "user.name", Text: "Name of a user", Optional: true, shape: user},
		{
			Key:     "user.groups",
			Text:    "Groups of the user",
			Default: groups,
			shape:   user,
			list:    true,
			when:    hasUser,
		},
		{Key: "user.password", Text: "NAME:HASH of the user, likewise, " + ref,
			Default: "prompt", shape: secret, when: hasUser},
		{Key: "user.ssh_keys", Text: "Public SSH key of the user", Optional: true, shape: sshKey, when: hasUser},
	}
	switch recipe {
	case "void-zfs":
		return slices.Concat(first, []Question{
			{Key: "libc", Text: "C library: glibc or musl", Default: "glibc", shape: libcs},
			{Key: "mirror", Text: "Repository of packages", Default: voidMirror, shape: url,
				when: func(a map[string]string) bool { return a["libc"] != "musl" }},
			{Key: "mirror", Text: "Repository of packages", Default: voidMirror + "/musl", shape: url,
				when: func(a map[string]string) bool { return a["libc"] == "musl" }},
			{Key: "mirror_key", Text: "Fingerprint of the key of the repository, as in /var/db/xbps/keys", Optional: true,
				shape: fingerprint},
			{Key: "kernel", Text: "Package of the kernel", Default: "linux-lts", shape: word},
		}, swap, loader, []Question{
			{Key: "zfsbootmenu.ssh_keys", Text: "Public SSH key that opens the menu over the network", Optional: true,
				shape: sshKey},
			{Key: "desktop", Text: "KDE Plasma", Default: "no", shape: yesNo},
			{Key: "flatpak", Text: "Flatpak", Default: "no", shape: yesNo, when: yes("desktop")},
		}, last)
	case "debian-zfs":
		loader[0].Optional = true
		loader[0].Text += "; without it, GRUB starts Debian 12, and a unified kernel image starts Debian 13"
		loader[1].when = func(a map[string]string) bool { return a["zfsbootmenu.file"] != "" }
		return slices.Concat(first, []Question{
			{Key: "release", Text: "Release, bookworm or trixie", Default: "trixie", shape: suites},
			{Key: "mirror", Text: "Repository of packages", Default: debianMirror, shape: url},
			{Key: "mirror_key", Text: "File NAME.asc with the key of the repository; without a file, Debian's key",
				Optional: true, shape: keyFile,
				when: func(a map[string]string) bool { return a["mirror"] != "" && a["mirror"] != debianMirror }},
		}, swap, loader, last)
	case "netbsd-zfs":
		first[0] = Question{Key: "disk", Text: "Disk that gets the system", Default: "/dev/wd0", shape: bsdDisk}
		return slices.Concat(first[:1], first[2:5], []Question{
			{Key: "release", Text: "Release", Default: "11.0", shape: word},
			{Key: "mirror", Text: "Mirror that has the sets, such as https://cdn.netbsd.org/pub/NetBSD; without a mirror, the " +
				"sets are in a folder", Optional: true, shape: url},
			{Key: "sets_dir", Text: "Folder with sets, kernel, ramdisk and SHA512", Default: "/sets", shape: path},
			{Key: "ssh_keys", Text: "Public SSH key of root", shape: sshKey},
		}, last[2:4], last[5:], []Question{{Key: "sets", Text: "Sets to install (base etc modules …); without an answer, " +
			"all sets except those of X", Optional: true, shape: word, list: true}})
	}
	return nil
}

func hasUser(a map[string]string) bool { return a["user.name"] != "" }

// Ask asks the questions of a recipe on out, reads one line each from in, and returns an
// install.yaml. An empty line takes the default. Where interactive is set, a wrong answer is
// asked for again; otherwise it is an error with its line.
func Ask(recipe string, in io.Reader, out io.Writer, interactive bool) ([]byte, error) {
	lines := bufio.NewScanner(in)
	answers := map[string]string{}
	n := 0
	for _, q := range Questions(recipe) {
		if q.when != nil && !q.when(answers) {
			continue
		}
		for {
			prompt := q.Text
			if q.Default != "" {
				prompt += " [" + q.Default + "]"
			} else if q.Optional {
				prompt += " [none]"
			}
			fmt.Fprintf(out, "%s: ", prompt)
			text, ended := q.Default, !lines.Scan()
			if n++; !ended && strings.TrimSpace(lines.Text()) != "" {
				text = strings.TrimSpace(lines.Text())
			}
			if !interactive {
				fmt.Fprintln(out)
			}
			if err := lines.Err(); err != nil {
				return nil, fault.Wrap(fault.Invalid, "answers", err)
			}
			if q.fits(text) {
				answers[q.Key] = text
				break
			}
			problem := "is not valid" // the answer is not shown: it may be a secret
			if fix := remedies[q.shape]; fix != "" {
				problem += "; " + fix
			}
			if text == "" {
				problem = "needs an answer"
			}
			if !interactive || ended {
				return nil, fault.New(fault.Invalid, "line %d of the answers: %s (%s) %s", n, q.Key, q.Text, problem)
			}
			fmt.Fprintf(out, "%s %s\n", q.Key, problem)
		}
	}
	if !interactive { // an answer that belongs to no question was meant for one: the others may be shifted
		for lines.Scan() {
			if n++; strings.TrimSpace(lines.Text()) != "" {
				return nil, fault.WithFix(fault.New(fault.Invalid, "line %d of the answers answers no question", n),
					"remove it, or compare the lines with the questions above")
			}
		}
		if err := lines.Err(); err != nil {
			return nil, fault.Wrap(fault.Invalid, "answers", err)
		}
	}
	return write(recipe, answers), nil
}

// fits reports whether a text answers a question.
func (q Question) fits(text string) bool {
	if text == "" {
		return q.Optional
	}
	words := []string{text}
	if q.list {
		words = strings.Fields(text)
	}
	if q.shape == zone && !zoneExists(text) {
		return false
	}
	if why, _ := keyFault(text); q.shape == sshKey && why != "" {
		return false
	}
	if _, err := Command(text); q.shape == secret && err != nil {
		return false
	}
	return !slices.ContainsFunc(words, func(w string) bool { return !q.shape.MatchString(w) })
}

// write returns the install.yaml of answers.
func write(recipe string, answers map[string]string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# yaml-language-server: $schema=install.schema.json\nschema: %s\nrecipe: %s\n", Schema, recipe)
	for _, section := range []struct{ prefix, head, first, indent string }{
		{"", "", "", ""}, {"zfsbootmenu", "zfsbootmenu:\n", "  ", "  "}, {"secrets", "secrets:\n", "  ", "  "},
		{"user", "users:\n", "  - ", "    "},
	} {
		before := section.head + section.first
		for _, q := range Questions(recipe) {
			prefix, key, ok := strings.Cut(q.Key, ".")
			if !ok {
				prefix, key = "", q.Key
			}
			asked := q.when == nil || q.when(answers)
			if prefix == section.prefix && asked && answers[q.Key] != "" {
				fmt.Fprintf(&b, "%s%s: %s\n", before, key, q.value(answers[q.Key]))
				before = section.indent
			}
		}
	}
	return []byte(b.String())
}

// value writes an answer as YAML.
func (q Question) value(answer string) string {
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
	switch {
	case q.list:
		var all []string
		for _, word := range strings.Fields(answer) {
			all = append(all, quote(word))
		}
		return "[" + strings.Join(all, ", ") + "]"
	case q.shape == sshKey:
		return "[" + quote(answer) + "]"
	case q.shape == yesNo:
		return map[string]string{"yes": "true", "no": "false"}[answer]
	case q.shape == number:
		return answer
	}
	return quote(answer)
}
