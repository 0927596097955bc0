package estimate

import (
	"bytes"
	"context"
	"os/exec"
	"time"

	"bakeoff/base/fault"
)

// most bounds the output of a program, in bytes: more than a batch of records
// that grow takes.
const most = 256 << 20

// Exec is a Run that starts a program of this machine with an empty environment,
// except for LC_ALL=C.
func Exec(ctx context.Context, argv []string) (out, complaints []byte, err error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	o, c := bounded{most: most}, bounded{most: 1 << 20}
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.WaitDelay = &o, &c, []string{"LC_ALL=C"}, 5*time.Second
	err = cmd.Run()
	return o.Bytes(), c.Bytes(), err
}

// bounded refuses what is more than most bytes.
type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		return 0, fault.New(fault.Lab, "the program printed more than %d bytes", b.most)
	}
	return b.Buffer.Write(p)
}
