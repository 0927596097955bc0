package lint

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/shell"
)

// key is a file with a key. Of is what it opens.
type key struct {
	path, of string
	pool     bool // of a dataset
}

// findKeys lists the keys of the root and of the swap, and those of other datasets.
func (l *linter) findKeys() {
	if r := l.encryptionRoot(l.rootSet); r != "" {
		// A key below /run is made at each start, as from the keystore of Ubuntu.
		if file, ok := keyFile(l.Datasets[r]["keylocation"].Value); ok && !within(file, "/run") {
			l.keys = append(l.keys, key{file, r, true})
		}
	}
	if l.resume != nil && l.resume.hasKey() {
		l.keys = append(l.keys, key{l.resume.key, l.resume.name, false})
	}
	for _, name := range l.Names() {
		file, ok := keyFile(l.Datasets[name]["keylocation"].Value)
		if ok && l.encryptionRoot(name) == name && !within(file, "/run") && !isKey(l.allKeys(), file) {
			l.otherKeys = append(l.otherKeys, key{file, name, true})
		}
	}
}

// allKeys are the keys of what is opened while the system starts, and those of other datasets.
func (l *linter) allKeys() []key { return slices.Concat(l.keys, l.otherKeys) }

// isKey reports whether a file is one of the keys.
func isKey(keys []key, file string) bool {
	return slices.ContainsFunc(keys, func(k key) bool { return k.path == file })
}

// lacksKey reports whether the system is known not to have a key.
func (l *linter) lacksKey(file string) bool {
	return l.root != nil && !l.exists(strings.TrimPrefix(file, "/")) && l.Modes[file] == ""
}

// readers returns who may read a file in addition to its owner, "" if nobody may or the mode is unknown.
func readers(mode string) string {
	switch n, err := strconv.ParseInt(mode, 8, 32); {
	case err != nil:
	case n&0o004 != 0:
		return "every user"
	case n&0o040 != 0:
		return "its group"
	}
	return ""
}

// keyName is the name of a file that is a key.
var keyName = lazy.Compile(`(?i)\.(key|keyfile|pass|passphrase|password|secret)$`)

// keyInside returns a key in a list of files, "" if there is none.
func (l *linter) keyInside(files []string) string {
	for _, f := range files {
		if isKey(l.allKeys(), f) || keyName.MatchString(f) &&
			(within(f, "/etc/zfs") || within(f, "/etc/cryptsetup-keys.d") || within(f, "/boot") ||
				within(f, "/cryptroot/keyfiles")) {
			return f
		}
	}
	return ""
}

// checkZdev checks for keys that the hook zdev of zfs-initramfs copies, as it does all of
// etc/zfs, where the images are not known or older than the key.
func (l *linter) checkZdev() {
	if l.tool != "initramfs-tools" || l.Packages["zfs-initramfs"] == "" || l.encryptedImage("boot/initrd.img") {
		return
	}
	for name, i := range l.Initramfs {
		if l.keyInside(i.Files) != "" && !l.encryptedImage(name) {
			return // checkImages says so
		}
	}
	inZFS := slices.DeleteFunc(files(l.root, "etc/zfs", ""), func(f string) bool { return !keyName.MatchString(f) })
	for _, k := range l.allKeys() {
		if f := strings.TrimPrefix(k.path, "/"); k.pool && within(k.path, "/etc/zfs") && l.exists(f) {
			inZFS = append(inZFS, f)
		}
	}
	for _, f := range inZFS {
		if l.encrypted("/" + f) {
			l.report("key-in-clear-initramfs", Error, f,
				"The next initramfs contains this key in clear: zfs-initramfs copies all of etc/zfs, and /boot is not encrypted.",
				l.replaceKey("/"+f)+"remove the key from /etc/zfs, and run "+l.rebuild()+".")
			return
		}
	}
}

// checkImages checks that no image shows a key.
func (l *linter) checkImages() {
	l.checkZdev()
	show := func(name, mode string, inside []string) {
		k := l.keyInside(inside)
		clear := !l.encryptedImage(name)
		if file := l.copyOnESP(name); !clear && file != "" {
			name, clear = file, true
		}
		switch {
		case k == "":
		case clear && l.encrypted(k) && !l.bootElsewhere:
			l.report("key-in-clear-initramfs", Error, name, fmt.Sprintf(
				"The initramfs has the key %s on a filesystem that is not encrypted: anybody who has the disk has the key.",
				k,
			),
				l.replaceKey(k)+"remove the key from its folder and from the configuration of the initramfs, and run "+
					l.rebuild()+".")
		case readers(mode) != "":
			l.report("key-in-readable-initramfs", Error, name, fmt.Sprintf(
				"The initramfs has the key %s, and %s may read it (mode %s).", k, readers(mode), mode),
				"chmod 0600 "+shell.Quote("/"+name)+"; make images with umask 0077")
		}
	}
	for _, name := range l.images() {
		show(name, l.Initramfs[name].Mode, l.Initramfs[name].Files)
	}
	for _, u := range l.UKI {
		show(u.Path, "", u.Files)
	}
}

// copyOnESP returns the copy of an image on an EFI system partition, "" if there is none. kernel-install makes one
// of the same name.
func (l *linter) copyOnESP(image string) string {
	for _, p := range l.ESPs() {
		files, _ := l.filesOf(p.PartUUID)
		for _, f := range slices.Sorted(maps.Keys(files)) {
			if strings.EqualFold(path.Base(f), path.Base(image)) {
				return l.onESP(p, f)
			}
		}
	}
	return ""
}

// replaceKey is what keeps the data of a key readable before its file is removed, with a comma behind it: the
// file may be the only copy.
func (l *linter) replaceKey(file string) string {
	for _, k := range l.keys {
		switch {
		case k.path != file:
		case k.pool:
			return l.askFor(k.of) + ", "
		default:
			return "Add a passphrase to " + settingOf(k.of) + " (cryptsetup luksAddKey), write none instead of " +
				settingOf(file) + " in crypttab, "
		}
	}
	const keep = "Copy the key to an encrypted filesystem, "
	for _, k := range l.otherKeys {
		if k.path == file {
			return keep + "zfs set keylocation=file:///PATH " + shell.Quote(k.of) + ", "
		}
	}
	return keep + "name the copy in what reads the key, "
}

// checkKeys checks the files with keys.
func (l *linter) checkKeys() {
	for _, k := range l.allKeys() {
		name := strings.TrimPrefix(k.path, "/")
		starts := isKey(l.keys, k.path) // it opens what the system starts from
		by := readers(l.Modes[k.path])
		switch {
		case by != "":
			l.report(
				"key-readable",
				Error,
				name,
				fmt.Sprintf("%s may read the key of %s (mode %s).", strings.ToUpper(by[:1])+by[1:], k.of, l.Modes[k.path]),
				"chmod 0400 "+shell.Quote(k.path),
			)
		case l.bootElsewhere && within(k.path, "/boot"):
		case !starts && !within(k.path, "/etc"): // such as a key on a disk that is removed
		case !l.encrypted(k.path):
			l.report("key-in-clear", Error, name,
				"The key of "+k.of+" is on a filesystem that is not encrypted: anybody who has the disk has the key.",
				"Keep the key in an encrypted dataset.")
		case k.pool && l.lacksKey(k.path):
			l.report("key-file-missing", Error, k.of+" keylocation", "There is no "+k.path+": "+k.of+" is not opened.",
				"Put the key there, or "+l.askFor(k.of))
		case k.pool && l.Datasets[k.of]["keyformat"].Value == "passphrase":
			// Only root may read a key.
			t, err := l.root.read(name)
			if n := len(strings.TrimSuffix(t, "\n")); err == nil && (n < 8 || n > 512) {
				l.report("passphrase-length", Error, name, "A passphrase has 8 to 512 bytes.", "zfs change-key "+shell.Quote(k.of))
			}
		}
	}
}
