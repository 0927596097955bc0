package index

import (
	"context"

	"bakeoff/base/fault"
)

func openPostgres(ctx context.Context, place string) (*Index, error) {
	return nil, fault.New(fault.Unsupported, "postgres")
}
