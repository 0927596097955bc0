package estimate

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"runtime"
	"slices"
	"time"

	"bakeoff/base/fault"
)

// Schema is the schema of an Estimate.
const Schema = "bakeoff/compress-estimate/v1"

// window is how much of a file is read at once, and the unit of a sample: a
// multiple of every record size and of btrfs' extents.
const window = 1 << 20

// Options say what is estimated.
type Options struct {
	Algorithms []Algorithm
	// Records are the record sizes of ZFS in bytes, powers of two from 512 B
	// to 1 MiB.
	Records []int64
	Pool    Pool
	Force   bool // btrfs: compress-force
	// SampleBytes bounds what is read, about: of a larger folder so much is
	// drawn. 0: everything.
	SampleBytes int64
	Seed        uint64 // of what is drawn
	Workers     int    // 0: one for each CPU
	// Program is what Algorithms were made with.
	Program *Program
	// Progress is told now and then how far it is; calls do not overlap.
	Progress func(done, total int64)
	Now      func() time.Time
}

// Estimate is what would be.
type Estimate struct {
	Schema string `json:"schema"`
	Folder string `json:"folder"`
	// Files and Bytes are all that is there, in regular files.
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
	// SampledBytes were read; fewer than Bytes mean a sample.
	SampledBytes int64 `json:"sampled_bytes"`
	// Unread counts files that could not be read or changed meanwhile.
	Unread int64 `json:"unread"`
	Pool   Pool  `json:"pool"`
	Rows   []Row `json:"rows"`
}

// Row is one algorithm with one size of records.
type Row struct {
	Algorithm
	Record int64 `json:"record_bytes"` // of btrfs: the largest extent
	// Ratio is what the file system itself reports: logical blocks, with the
	// padding of the last one, to physical ones; of ZFS the property
	// compressratio, with the metadata of files as it counts it.
	Ratio float64 `json:"ratio"`
	// Error is half of the 95 % interval of Ratio; 0 where all was read.
	Error float64 `json:"error"`
	// Space is the bytes of the files to the bytes that are allocated for
	// them; null where nothing is.
	Space *float64 `json:"space"`
	// StoredBytes is what all files would take.
	StoredBytes int64 `json:"stored_bytes"`
	// BytesPerSecond is how fast one CPU of this machine compressed, by this
	// program's compressors, or of the first MiB as the program zstd measures
	// itself, in memory; null where there is nothing to compress.
	BytesPerSecond *float64 `json:"bytes_per_second"`
}

// Folder estimates the regular files of a folder. Links are not followed.
func Folder(ctx context.Context, dir string, o Options) (Estimate, error) {
	e := Estimate{Schema: Schema, Folder: dir, Pool: o.Pool}
	if err := check(&o); err != nil {
		return e, err
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return e, fault.New(fault.NotFound, "folder %s does not exist", dir)
	}
	if err != nil {
		return e, fault.WithFix(fault.Wrap(fault.Invalid, "", err), "name a folder that can be read")
	}
	defer root.Close()
	err = walk(ctx, root, func(_ string, size int64) error {
		e.Files++
		e.Bytes += size
		return nil
	})
	if err != nil {
		return e, fault.Op("folder "+dir, err)
	}
	if e.Bytes == 0 {
		return e, fault.WithFix(fault.New(fault.Invalid, "%s has no files with anything in them", dir), "name a folder with the files that are to be stored")
	}
	p := pool{root: root, o: o, total: e.Bytes, chance: 1}
	if o.SampleBytes > 0 && e.Bytes > o.SampleBytes {
		p.chance = float64(o.SampleBytes) / float64(e.Bytes)
		p.total = o.SampleBytes
	}
	if err := p.run(ctx); err != nil {
		return e, fault.Op("folder "+dir, err)
	}
	e.SampledBytes, e.Unread = p.read, p.unread
	if n := p.tallies[0].n; n == 0 || n < 2 && p.chance < 1 {
		return e, fault.New(fault.Unsupported, "nothing of %s could be read, or too little was drawn for a sample", dir)
	}
	for i, t := range p.tallies {
		e.Rows = append(e.Rows, t.row(p.specs[i], e, p.chance < 1))
	}
	return e, nil
}

func check(o *Options) error {
	if len(o.Algorithms) == 0 {
		return fault.New(fault.Invalid, "no algorithm is named")
	}
	for _, r := range o.Records {
		if r < zfsSector || r > window || r&(r-1) != 0 {
			return fault.New(fault.Invalid, "a record of %d bytes: powers of two from 512 to %d are right", r, window)
		}
	}
	if o.Pool.Ashift == 0 {
		o.Pool.Ashift = 12
	}
	if o.Pool.Ashift < 9 || o.Pool.Ashift > 16 {
		return fault.New(fault.Invalid, "ashift %d: from 9 (512 bytes) to 16 (64 KiB) is right", o.Pool.Ashift)
	}
	if o.Workers < 1 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Program == nil && slices.ContainsFunc(o.Algorithms, func(a Algorithm) bool { return a.level > 0 }) {
		return fault.New(fault.Invalid, "an algorithm needs the program zstd, and none is named")
	}
	slices.Sort(o.Records)
	return nil
}

// walk visits the regular files in order of their names.
func walk(ctx context.Context, root *os.Root, do func(name string, size int64) error) error {
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		if err != nil {
			if name == "." {
				return err
			}
			return nil // counted where it is missing: it is not there to be stored
		}
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		return do(name, info.Size())
	})
}

// spec is what a row is of.
type spec struct {
	Algorithm
	record int64
}

// specs lists the rows: the records of one algorithm in ascending order.
func specs(o Options) []spec {
	var out []spec
	for _, a := range o.Algorithms {
		if a.FileSystem == Btrfs {
			out = append(out, spec{a, btrfsChunk})
			continue
		}
		for _, r := range o.Records {
			out = append(out, spec{a, r})
		}
	}
	slices.SortStableFunc(out, func(a, b spec) int { return cmp.Compare(b.FileSystem, a.FileSystem) }) // zfs first
	return out
}

// tally sums over units of the sample: windows of files.
type tally struct {
	n                            float64
	bytes, logical, physical     float64
	allocated                    float64
	logical2, physical2, product float64 // sums of squares and of products
	coded                        int64
	spent                        time.Duration
}

// add counts one unit; first tells that a file begins with it, and metadata
// is what is stored besides.
func (t *tally) add(bytes int64, b block, first bool, metadata float64) {
	l, p := float64(b.logical), float64(b.physical)
	t.n++
	if first {
		l, p = l+metadata, p+metadata
	}
	t.bytes += float64(bytes)
	t.logical += l
	t.physical += p
	t.allocated += float64(b.allocated)
	t.logical2 += l * l
	t.physical2 += p * p
	t.product += l * p
}

func (t *tally) merge(o tally) {
	t.n += o.n
	t.bytes += o.bytes
	t.logical += o.logical
	t.physical += o.physical
	t.allocated += o.allocated
	t.logical2 += o.logical2
	t.physical2 += o.physical2
	t.product += o.product
	t.coded += o.coded
	t.spent += o.spent
}

func (t tally) row(s spec, e Estimate, sampled bool) Row {
	r := Row{Algorithm: s.Algorithm, Record: s.record, Ratio: 1}
	if t.physical > 0 {
		r.Ratio = t.logical / t.physical
	}
	if sampled {
		r.Error = 1.96 * t.standardError(r.Ratio, float64(e.SampledBytes)/float64(e.Bytes))
	}
	if t.allocated > 0 {
		v := t.bytes / t.allocated
		r.Space = &v
		r.StoredBytes = int64(t.allocated * float64(e.Bytes) / t.bytes)
	}
	if t.spent > 0 && t.coded > 0 {
		v := float64(t.coded) / t.spent.Seconds()
		r.BytesPerSecond = &v
	}
	return r
}

// standardError of a ratio of two sums over a sample of which part was drawn.
//
// Source: Cochran, Sampling Techniques, 6.4: the ratio estimator, linearised.
func (t tally) standardError(r, part float64) float64 {
	if t.n < 2 || t.physical == 0 {
		return 0 // nothing is stored: nothing to be wrong about
	}
	residual := max(0, t.logical2-2*r*t.product+r*r*t.physical2)
	return math.Sqrt(residual*t.n/(t.n-1)*max(0, 1-part)) / t.physical
}
