package execution

import (
	"context"
	"errors"
	"time"

	"bakeoff/provision/driver"
)

// Life is the life of a fresh environment, on the controller's clock.
type Life struct {
	Asked time.Time // it was requested
	Up    time.Time // it answered
	Left  time.Time // its removal was requested
	Gone  time.Time // it was removed completely
	Made  []Mark    // of its creation, as Fresh returned them
}

// Live creates an environment, calls use, and removes the environment, also after the
// deadline of ctx. If it cannot be created, the error is that of Fresh.
func (t Target) Live(ctx context.Context, use func(in driver.Instance, l Life) error) (Life, error) {
	l := Life{Asked: time.Now()}
	in, made, err := t.Fresh(ctx)
	if err != nil {
		return l, err
	}
	l.Up, l.Made = time.Now(), made
	for _, mark := range made {
		switch mark.Name {
		case "asked":
			l.Asked = mark.At
		case "up":
			l.Up = mark.At
		}
	}
	err = use(in, l)
	l.Left = time.Now()
	gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	err = errors.Join(err, in.Close(gone))
	l.Gone = time.Now()
	return l, err
}
