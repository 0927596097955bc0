// Package compression copies many small files into a file system that
// compresses: how long it takes until they are on the disk, and what they then
// take there.
package compression

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/strictjson"
	"bakeoff/measure/workload"
	"bakeoff/provision/driver"
	"bakeoff/reach/loop"
)

// Volume is the blob of what the volume's file system said of itself before
// and after: a usages.
const Volume = "volume.json"

type usages struct {
	Before driver.VolumeUsage `json:"before"`
	After  driver.VolumeUsage `json:"after"`
}

// work is the native loop, between two looks at the volume from its host.
type work struct {
	workload.Workload
	doc workload.Doc
}

// New returns the workload.
func New() workload.Workload {
	inner := workload.Native(workload.Doc{
		Name:    "compression",
		Summary: "Copying an archive of mail, or any folder, into a file system that compresses",
		Metrics: []sample.Metric{{Name: "copy", Unit: "s", Better: sample.Lower, Scale: sample.Ratio,
			Doc: "until the last writer has ended and syncfs(2) has returned: on ZFS much of the work comes after it"}},
		Volume: "volume",
		State:  "restored",
		Cache:  "warm",
		Time: func(p param.Values) time.Duration {
			files := p.Int("files") * max(1, p.Int("writers")*map[bool]int64{true: 1}[p.Bool("overlap")])
			return 100*time.Millisecond + time.Duration(files)*700*time.Microsecond
		},
		Source: []string{
			"The file system is fresh for each block; between trials the copies are deleted, and the deletion is on the disk before the next begins.",
			"find . | cpio -pdu, as it was published, with one writer and with two: there each of the two copies everything (overlap=true)",
			"zfs(8): compressratio, used; statfs(2)",
		},
	}, Loop())
	doc := inner.Doc()
	ratio := func(name, unit, text string, primary bool) sample.Metric {
		return sample.Metric{Name: name, Unit: unit, Better: sample.Higher, Scale: sample.Ratio, Primary: primary, Doc: text}
	}
	doc.Metrics = append([]sample.Metric{
		{Name: "time", Unit: "s", Better: sample.Lower, Scale: sample.Ratio, Primary: true, Doc: "until everything is on the disk, the pool's transaction group included"},
		ratio("ratio", "1", "bytes of the files to the bytes that the file system took for them, metadata included", true),
		ratio("compressratio", "1", "the property of ZFS: of whole logical blocks, sectors not counted; absent elsewhere", false),
		ratio("efficiency", "1/s", "ratio / time of the trial, as it was published; it weighs a second as much as a factor, which nobody need do", false),
	}, doc.Metrics...)
	return work{inner, doc}
}

// Doc describes the workload.
func (w work) Doc() workload.Doc { return w.doc }

// Check refuses a folder that can be nobody's, for workload.Checker; whether one
// is there only the environment can tell.
func (w work) Check(p param.Values) error {
	if p.Text("folder") == "" {
		return nil
	}
	_, err := source(p, loop.Env{})
	return err
}

// Files is the folder that is copied, for workload.Finder.
func (w work) Files(p param.Values) []workload.File {
	if f := p.Text("folder"); path.IsAbs(f) {
		return []workload.File{{Param: "folder", Path: f, Folder: true}}
	}
	return nil
}

// Prepare writes the messages, or looks at the folder that is copied instead: one
// that a contender does not have is the contender's failure, and not the
// laboratory's.
func (w work) Prepare(ctx context.Context, t workload.Target, p param.Values) error {
	err := w.Workload.Prepare(ctx, t, p)
	if err != nil && p.Text("folder") != "" && ctx.Err() == nil {
		err = fault.New(fault.Subject, "%w", err)
	}
	return err
}

// Reset deletes what the trial before wrote, down to the disk.
func (w work) Reset(ctx context.Context, t workload.Target, p param.Values) error {
	if err := w.Workload.Reset(ctx, t, p); err != nil {
		return err
	}
	_, err := settle(ctx, t, p)
	return err
}

// Run copies, and waits until it is on the disk.
func (w work) Run(ctx context.Context, t workload.Target, p param.Values) (workload.Raw, error) {
	before, err := settle(ctx, t, p)
	if err != nil {
		return nil, err
	}
	raw, err := w.Workload.Run(ctx, t, p)
	if err != nil {
		return raw, err
	}
	after, err := settle(ctx, t, p)
	if err != nil {
		return raw, err
	}
	raw[Volume], err = json.Marshal(usages{before, after})
	return raw, fault.Op("compression", err)
}

func settle(ctx context.Context, t workload.Target, p param.Values) (driver.VolumeUsage, error) {
	s, ok := t.Subject.(driver.Storer)
	if !ok {
		return driver.VolumeUsage{}, fault.WithFix(fault.New(fault.Unsupported, "compression: this technology's volumes cannot be looked at from their host"),
			"take one that shares the host's kernel: host, chroot, oci")
	}
	return s.SettleVolume(ctx, p.Text("volume"))
}

// Parse reads both.
func (w work) Parse(raw workload.Raw, p param.Values) ([]sample.Value, error) {
	values, err := w.Workload.Parse(raw, p)
	if err != nil {
		return nil, err
	}
	more, err := parse(raw, w.Workload.Doc(), p)
	return append(more, values...), fault.Op("compression: "+Volume, err)
}

func parse(raw workload.Raw, doc workload.Doc, p param.Values) ([]sample.Value, error) {
	res, err := workload.ParseWork(raw, doc, p)
	if err != nil {
		return nil, err
	}
	b, ok := raw[Volume]
	if !ok {
		return nil, workload.ErrNoBlob
	}
	u, err := decode(b)
	if err != nil {
		return nil, err
	}
	size := res.Work
	if p.Bool("overlap") {
		size /= float64(p.Int("writers"))
	}
	took := (time.Duration(res.ElapsedNS) + u.After.Took).Seconds()
	ratio := size / float64(u.After.UsedBytes-u.Before.UsedBytes)
	if math.IsInf(ratio, 0) || !(ratio > 0) {
		return nil, fault.New(fault.Subject, "%g bytes took %d bytes of the file system", size, u.After.UsedBytes-u.Before.UsedBytes)
	}
	out := []sample.Value{
		{Metric: "time", Unit: "s", Value: took},
		{Metric: "ratio", Unit: "1", Value: ratio},
		{Metric: "efficiency", Unit: "1/s", Value: ratio / took},
	}
	if u.After.CompressRatio > 0 {
		out = append(out, sample.Value{Metric: "compressratio", Unit: "1", Value: u.After.CompressRatio})
	}
	return out, nil
}

func decode(b []byte) (u usages, err error) {
	if err := strictjson.Decode(b, &u); err != nil {
		return u, err
	}
	if u.Before.UsedBytes < 0 || u.After.UsedBytes < 0 || u.After.Took < 0 || u.After.CompressRatio < 0 {
		return u, fmt.Errorf("says %+v", u)
	}
	return u, nil
}
