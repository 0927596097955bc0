// Package guestinit is process 1 of a guest: it mounts what programs expect, sets up network,
// volumes and settings as the host says, starts programs, and answers the host by package serve.
// It also writes the RAM disk that starts such a guest.
package guestinit

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/initramfs"
	"bakeoff/reach/wire"
)

// maxRequest bounds the JSON that a subcommand reads, in bytes.
const maxRequest = 1 << 20

// RunInitramfs is the subcommand `initramfs`: it writes the RAM disk that starts a guest, from the
// wire.InitramfsRequest on standard input.
func RunInitramfs(c command.Call) int {
	var q wire.InitramfsRequest
	if err := json.NewDecoder(io.LimitReader(c.Stdin, maxRequest)).Decode(&q); err != nil {
		return c.Fail(command.UsageError("initramfs: the request: %w", err))
	}
	res, err := writeInitramfs(q)
	if err != nil {
		return c.Fail(fault.Op("initramfs", err))
	}
	return c.Print(res)
}

func writeInitramfs(q wire.InitramfsRequest) (res wire.InitramfsResult, err error) {
	if q.Clock {
		return writeClock(q)
	}
	if res.Kernel, err = kernelVersion(q.Kernel); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return res, fault.New(fault.NotFound, "kernel %s does not exist", q.Kernel)
		}
		if q.Modules != "" { // the version is needed to find them
			return res, fault.New(fault.Invalid, "kernel %s: %w", q.Kernel, err)
		}
	}
	res.Bytes, err = writeOut(q.Out, func(w io.Writer) error {
		a := initramfs.New(w)
		if err := addAll(a, &q, &res); err != nil {
			return err
		}
		return a.Close()
	})
	return res, err
}

// writeClock writes a RAM disk that reports the clock, and after it the RAM disk of the
// request. The kernel unpacks one after the other.
func writeClock(q wire.InitramfsRequest) (res wire.InitramfsResult, err error) {
	res.Bytes, err = writeOut(q.Out, func(w io.Writer) error {
		a := initramfs.New(w)
		if err := errors.Join(a.Clock(q.Next), a.Close()); err != nil || q.Before == "" {
			return err
		}
		f, err := os.Open(q.Before)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	})
	return res, err
}

// writeOut writes a file and returns its size. A file that could not be written is
// removed.
func writeOut(name string, write func(io.Writer) error) (size int64, err error) {
	out, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() {
		if cerr := out.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			os.Remove(name)
		}
	}()
	buffered := bufio.NewWriterSize(out, 1<<20)
	if err := errors.Join(write(buffered), buffered.Flush()); err != nil {
		return 0, err
	}
	info, err := out.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func addAll(a *initramfs.Archive, q *wire.InitramfsRequest, res *wire.InitramfsResult) error {
	for _, d := range []string{"/dev", "/proc", "/sys", "/root", initramfs.ModuleDir} {
		if err := a.Dir(d); err != nil {
			return err
		}
	}
	if err := a.Init(q.Agent); err != nil {
		return err
	}
	if q.Disk != "" {
		if err := addDisk(a, q); err != nil {
			return err
		}
	}
	if q.Modules != "" {
		// With os.Root, a link in an image cannot lead out of it.
		dir, err := os.OpenRoot(q.Modules)
		if err != nil {
			return err
		}
		defer dir.Close()
		sub, err := dir.OpenRoot("lib/modules/" + res.Kernel)
		if err != nil {
			return fault.WithFix(fault.New(fault.Unsupported, "%s contains no modules for kernel %s: %w", q.Modules,
				res.Kernel, err),
				"give the directory that contains lib/modules/"+res.Kernel)
		}
		defer sub.Close()
		tree, err := initramfs.OpenTree(sub.FS())
		if err != nil {
			return err
		}
		if res.Modules, err = a.AddModules(tree, q.Wanted); err != nil {
			return err
		}
	}
	q.Config.Modules = res.Modules
	text, err := json.Marshal(q.Config)
	if err != nil {
		return err
	}
	return a.File(wire.InitConfigPath, 0o600, int64(len(text)), bytes.NewReader(text))
}

// addDisk adds a disk image, and what the guest needs to mount it.
func addDisk(a *initramfs.Archive, q *wire.InitramfsRequest) error {
	if q.Config.Root != "" {
		return fault.New(fault.Invalid, "the root is given twice: as the disk %q and as the disk image "+
			"%s", q.Config.Root, q.Disk)
	}
	q.Config.RootDisk = cmp.Or(q.Config.RootDisk, wire.GuestDisk)
	f, err := os.Open(q.Disk)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > math.MaxUint32 {
		return fault.WithFix(fault.New(fault.Invalid, "%s is not a file below 4 GiB, the limit of a RAM disk", q.Disk),
			"attach it as a disk")
	}
	q.Wanted = append(slices.Clone(q.Wanted), "loop")
	return a.File(q.Config.RootDisk, 0o600, info.Size(), f)
}

func kernelVersion(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return initramfs.KernelVersion(f)
}
