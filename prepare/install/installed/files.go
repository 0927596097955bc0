package installed

import (
	"bytes"
	"cmp"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"bakeoff/base/lazy"
)

// File is a file of the configuration of a system. Only one field is set; an empty file has none.
type File struct {
	Text     string `json:"text,omitempty"`
	Data     []byte `json:"base64,omitempty"` // of a file that is not text
	Link     string `json:"link,omitempty"`   // what a symbolic link names
	Withheld bool   `json:"withheld,omitempty"`
}

// configuration are the files that facts contain, below the root of the system.
var configuration = []string{
	"boot.cfg", "boot/boot.cfg", "boot/*.kcl", "boot/efi/loader/entries/*.conf", "boot/grub/grub.cfg",
	"boot/loader/entries/*.conf", "boot-ffs/boot.cfg", "efi/loader/entries/*.conf",
	"etc/apt/sources.list", "etc/apt/sources.list.d/*.list", "etc/apt/sources.list.d/*.sources",
	"etc/anacrontab", "etc/cron.d/*", "etc/crontab", "etc/periodic/daily/*", "etc/periodic/monthly/*",
	"etc/periodic/weekly/*", "etc/rc.conf.d/zfs", "usr/lib/modprobe.d/*.conf", "var/spool/cron/*",
	"var/spool/cron/crontabs/*", "usr/lib/systemd/system/service.d/*.conf",
	"usr/lib/systemd/system/zfs-.service.d/*.conf", "usr/lib/systemd/system/zfs-import-.service.d/*.conf",
	"usr/lib/systemd/system/zfs-import-cache.service.d/*.conf",
	"usr/lib/systemd/system/zfs-import-scan.service.d/*.conf", "etc/cron.daily/*",
	"etc/cron.monthly/*", "etc/cron.weekly/*", "etc/cryptsetup-initramfs/conf-hook",
	"etc/cmdline.d/*.conf", "etc/crypttab", "etc/crypttab.initramfs", "etc/kernel/install.conf.d/*.conf",
	"etc/default/zfs",
	"usr/lib/kernel/cmdline", "usr/lib/kernel/install.conf", "usr/lib/kernel/install.conf.d/*.conf", "etc/default/grub",
	"etc/default/grub.d/*.cfg", "etc/default/libc-locales", "etc/dkms/*.conf",
	"etc/dkms/framework.conf.d/*.conf", "etc/dracut.conf", "etc/dracut.conf.d/*.conf", "etc/fstab", "etc/hostid",
	"etc/hostname", "etc/initramfs-tools/conf.d/*", "etc/initramfs-tools/initramfs.conf", "etc/kernel/cmdline",
	"etc/kernel/install.conf", "etc/localtime", "etc/modprobe.d/*.conf", "etc/rc.conf", "etc/rc.local",
	"etc/resolv.conf",
	"etc/runit/runsvdir/default/*", "etc/systemd/system/service.d/*.conf", "etc/systemd/system/zfs-.service.d/*.conf",
	"etc/systemd/system/zfs-import-.service.d/*.conf", "etc/systemd/system/zfs-import-cache.service",
	"etc/systemd/system/zfs-import-cache.service.d/*.conf", "etc/systemd/system/zfs-import-scan.service",
	"etc/systemd/system/zfs-import-scan.service.d/*.conf", "etc/xbps.d/*.conf", "etc/zfs/zfs-list.cache/*",
	"etc/tmpfiles.d/*.conf", "etc/zfs/zpool.cache", "usr/lib/dracut/dracut.conf.d/*.conf", "usr/sbin/policy-rc.d",
	"usr/share/initramfs-tools/conf.d/*", "usr/share/xbps.d/*.conf",
}

// present are the files of which facts say only that they are there: many are keys, or large.
var present = []string{"boot/*", "etc/cryptsetup-keys.d/*", "etc/grub.d/10_linux_zfs",
	"etc/pipewire/pipewire.conf.d/10-wireplumber.conf", "etc/systemd/system/*.swap", "etc/zfs/*", "stand/amd64/*"}

// ConfigurationPaths are the files and folders that have the files of facts.
func ConfigurationPaths() (out []string) {
	for _, pattern := range slices.Concat(configuration, present) {
		if name := path.Base(pattern); strings.Contains(name, "*") {
			pattern = path.Dir(pattern)
		}
		if !slices.Contains(out, pattern) {
			out = append(out, pattern)
		}
	}
	return out
}

// Configured reports whether facts contain a file, and whether its content.
func Configured(name string) (there, content bool) {
	matches := func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	}
	content = slices.ContainsFunc(configuration, matches)
	return content || slices.ContainsFunc(present, matches), content
}

var (
	cronJob   = lazy.Compile(`^(etc/(cron\.|crontab|anacrontab|periodic/)|var/spool/cron/)`)
	passwords = lazy.Compile(`(?i)\b((?:pass(?:word|wd|phrase)?|secret|token)=)[^\s,"';]+`)
	urlUsers  = lazy.Compile(`://[^/\s@]+@`)
)

// FileOf returns a file of facts with what may be a secret replaced.
func FileOf(name string, data []byte) File {
	switch text := string(data); {
	case name == "boot/grub/grub.cfg": // may have passwords, and is long
		return File{Text: linesWith(text, "root=ZFS=")}
	case cronJob.MatchString(name): // may have secrets
		return File{Text: linesWith(text, "trim")}
	case strings.HasPrefix(name, "usr/lib/modprobe.d/"):
		return File{Text: linesWith(text, "options")}
	case name == "etc/rc.local" || strings.Contains(name, "tmpfiles.d/"):
		return File{Text: linesWith(text, "zfs_arc_max")}
	case name == "etc/localtime" || name == "etc/resolv.conf": // a link there is what matters
		return File{Withheld: true}
	case !utf8.Valid(data) || strings.ContainsRune(text, 0):
		return File{Data: data}
	default:
		return File{Text: urlUsers.ReplaceAllString(passwords.ReplaceAllString(text, "${1}withheld"), "://")}
	}
}

// linesWith returns the lines that contain a word.
func linesWith(text, word string) (out string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			out += line
		}
	}
	return out
}

// Root returns the files as a file system, nil if they are unknown.
func Root(files map[string]File) fs.FS {
	if files == nil {
		return nil
	}
	return root(files)
}

// root is files, by path.
type root map[string]File

func (r root) get(op, name string) (entry, error) {
	if f, ok := r[name]; ok {
		return entry{name: path.Base(name), file: &f}, nil
	}
	for n := range r {
		if name == "." || strings.HasPrefix(n, name+"/") {
			return entry{name: path.Base(name)}, nil
		}
	}
	return entry{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// Open opens a file or a folder. Links are not followed.
func (r root) Open(name string) (fs.File, error) {
	e, err := r.get("open", name)
	switch {
	case err != nil:
		return nil, err
	case e.file != nil && e.file.Withheld:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	o := &opened{entry: e, Reader: strings.NewReader(string(e.data()))}
	if e.IsDir() {
		o.left, err = r.ReadDir(name)
	}
	return o, err
}

// Lstat describes a file without following links.
func (r root) Lstat(name string) (fs.FileInfo, error) { return r.get("lstat", name) }

// Stat is Lstat: links are not followed.
func (r root) Stat(name string) (fs.FileInfo, error) { return r.get("stat", name) }

// ReadFile returns the content of a file.
func (r root) ReadFile(name string) ([]byte, error) {
	e, err := r.get("open", name)
	switch {
	case err != nil:
		return nil, err
	case e.file == nil || !e.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrInvalid}
	case e.file.Withheld:
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrPermission}
	}
	return bytes.Clone(e.data()), nil
}

// ReadLink returns what a link names.
func (r root) ReadLink(name string) (string, error) {
	e, err := r.get("readlink", name)
	if err == nil && (e.file == nil || e.file.Link == "") {
		err = &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	if err != nil {
		return "", err
	}
	return e.file.Link, nil
}

// ReadDir returns what a folder has, by name.
func (r root) ReadDir(name string) (out []fs.DirEntry, err error) {
	if e, err := r.get("open", name); err != nil || e.file != nil {
		return nil, cmp.Or(err, error(&fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}))
	}
	seen := map[string]bool{}
	for n := range r {
		if name != "." {
			below, ok := strings.CutPrefix(n, name+"/")
			if !ok {
				continue
			}
			n = below
		}
		n, _, _ = strings.Cut(n, "/")
		if !seen[n] {
			seen[n] = true
			e, err := r.get("open", path.Join(name, n))
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}

// entry is a file or, without one, a folder.
type entry struct {
	name string
	file *File
}

func (e entry) data() []byte {
	switch {
	case e.file == nil:
		return nil
	case e.file.Data != nil:
		return e.file.Data
	}
	return []byte(e.file.Text)
}

func (e entry) Name() string               { return e.name }
func (e entry) IsDir() bool                { return e.file == nil }
func (e entry) ModTime() time.Time         { return time.Time{} }
func (e entry) Sys() any                   { return nil }
func (e entry) Info() (fs.FileInfo, error) { return e, nil }
func (e entry) Type() fs.FileMode          { return e.Mode().Type() }

// Size is that of the content, and 1 where that is unknown: a withheld file is not empty.
func (e entry) Size() int64 {
	if e.file != nil && e.file.Withheld {
		return 1
	}
	return int64(len(e.data()))
}

func (e entry) Mode() fs.FileMode {
	switch {
	case e.file == nil:
		return fs.ModeDir | 0o555
	case e.file.Link != "":
		return fs.ModeSymlink | 0o777
	}
	return 0o444
}

// opened is an open entry.
type opened struct {
	entry
	*strings.Reader
	left []fs.DirEntry // that ReadDir has not returned yet
}

// ReadDir returns the next n entries of a folder, or all if n is not positive.
func (o *opened) ReadDir(n int) ([]fs.DirEntry, error) {
	out := o.left
	if n > 0 {
		if len(out) == 0 {
			return nil, io.EOF
		}
		out = out[:min(n, len(out))]
	}
	o.left = o.left[len(out):]
	return out, nil
}

func (o *opened) Stat() (fs.FileInfo, error) { return o.entry, nil }
func (o *opened) Close() error               { return nil }
func (o *opened) Size() int64                { return o.entry.Size() }
