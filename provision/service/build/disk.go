package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"bakeoff/base/fault"
	"bakeoff/base/gpt"
	"bakeoff/base/hexsum"
	"bakeoff/base/unit"
	"bakeoff/provision/disk"
	"bakeoff/provision/image/partition"
	"bakeoff/reach/conn"
)

// disk writes a disk with a GPT whose one partition is the root, marked BOOTME.
//
// mke2fs writes the file system without mounting it. It copies the times of the last
// change of the attributes, which nobody can set, so they are replaced in its result.
func (b *builder) disk(ctx context.Context, to string) error {
	size, spare, err := b.rootSize()
	if err != nil {
		return err
	}
	journal := "^has_journal"
	var more []string
	if spare >= 4*journalSize {
		journal, more = "has_journal", []string{"-J", fmt.Sprintf("size=%d", journalSize/unit.MiB)}
	}
	now := fmt.Sprint(epoch.Unix())
	err = disk.Ext4{Folder: b.root, Size: size,
		Options: append([]string{"-O", journal + ",^metadata_csum,^metadata_csum_seed,^orphan_file", "-b", "4096", "-L", "",
			"-U", b.id("file system")}, more...),
		Extended: []string{"hash_seed=" + b.id("hash"), "lazy_itable_init=0", "nodiscard", fmt.Sprintf("offset=%d",
			partition.Start)},
		Env: []string{"E2FSPROGS_FAKE_TIME=" + now, "SOURCE_DATE_EPOCH=" + now}}.Make(ctx, b.store.Host, to)
	if failed := (*conn.ExitError)(nil); errors.As(err, &failed) && b.def.Size > 0 {
		err = fault.WithFix(err, "write a larger size, or none")
	}
	if err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err = f.Truncate(partition.Start + size + partition.End); err == nil {
		err = disk.SetTimes(f, partition.Start, uint32(epoch.Unix()))
	}
	if err == nil {
		err = partition.WriteRoot(f, size, runtime.GOARCH, PartitionName(b.def.Name), b.id("disk"), b.id("partition"),
			gpt.BootMe)
	}
	return errors.Join(err, f.Close())
}

// journalSize is the size of the journal of the file system, the least that there is. Without
// one, a machine whose power is cut may not boot again.
const journalSize = 4 * unit.MiB

// rootSize is the size of the file system, a multiple of a MiB: that of the definition, or
// what the files need and 64 MiB more. spare is what the files do not need.
func (b *builder) rootSize() (size int64, spare unit.Bytes, err error) {
	const least = 64 * unit.MiB
	seen := map[uint64]bool{}
	err = filepath.WalkDir(b.root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 && !d.IsDir() {
			if seen[uint64(st.Ino)] {
				return nil
			}
			seen[uint64(st.Ino)] = true
		}
		if size += 4096; info.Mode().IsRegular() {
			size += (info.Size() + 4095) &^ 4095
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	files := size
	if b.def.Size > 0 {
		if int64(b.def.Size) < size {
			return 0, 0, fault.WithFix(fault.New(fault.Invalid, "the files need %v, but size is %v", unit.Bytes(size),
				b.def.Size), "write a larger size, or none")
		}
		size = int64(b.def.Size)
	} else {
		size = size/8*9 + int64(least)
	}
	size = (size + 1<<20 - 1) &^ (1<<20 - 1)
	return size, unit.Bytes(size - files), nil
}

// id is an identifier that depends only on the definition. The base may have another
// digest with the same files in the result, because it has logs.
func (b *builder) id(what string) string {
	h := hexsum.Of(b.seed + " " + what)
	return h[0:8] + "-" + h[8:12] + "-4" + h[13:16] + "-8" + h[17:20] + "-" + h[20:32]
}
