package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Way is a way to PostgreSQL servers.
type Way string

// The ways, in the order in which [Choose] tries them.
const (
	URLs   Way = "urls"   // servers that are there: HARE_TEST_POSTGRES_URLS, separated by commas
	Docker Way = "docker" // containers
	Local  Way = "local"  // processes of installed binaries
)

const (
	urlsVariable = "HARE_TEST_POSTGRES_URLS"
	waysVariable = "HARE_SERVERS"
)

// Choose says which way servers come and why: URLs if there are any, else a Docker engine that has an image of
// PostgreSQL or can get one, else installed binaries, which root on Debian or Ubuntu installs if there are none.
// HARE_SERVERS (urls, docker or local) forces one. The error says for each way why it cannot be gone.
func Choose(ctx context.Context) (Way, string, error) {
	if forced := Way(os.Getenv(waysVariable)); forced != "" {
		reason, err := usable(ctx, forced)
		if err != nil {
			return "", "", fmt.Errorf("%s=%s: %w", waysVariable, forced, err)
		}
		return forced, reason + ", as " + waysVariable + " demands", nil
	}
	return firstUsable(ctx, URLs, Docker, Local)
}

// chooseOwn is Choose for a server that may be killed: HARE_SERVERS counts, URLs do not.
func chooseOwn(ctx context.Context) (Way, error) {
	if forced := Way(os.Getenv(waysVariable)); forced != "" && forced != URLs {
		return forced, nil
	}
	way, _, err := firstUsable(ctx, Docker, Local)
	return way, err
}

// firstUsable is the first way that works.
func firstUsable(ctx context.Context, ways ...Way) (Way, string, error) {
	refused := []error{errors.New("no PostgreSQL server can be had")}
	for _, way := range ways {
		reason, err := usable(ctx, way)
		if err == nil {
			return way, reason, nil
		}
		refused = append(refused, fmt.Errorf("%s: %w", way, err))
	}
	return "", "", errors.Join(refused...)
}

// usable makes a way ready and says what it found.
func usable(ctx context.Context, way Way) (string, error) {
	switch way {
	case URLs:
		urls := configuredURLs()
		if len(urls) == 0 {
			return "", errors.New(urlsVariable + " is not set")
		}
		return fmt.Sprintf("%d in %s", len(urls), urlsVariable), nil
	case Docker:
		return dockerReady(ctx)
	case Local:
		bin, err := binaries(ctx)
		return "binaries in " + bin, err
	default:
		return "", errors.New("the ways are urls, docker and local")
	}
}

// configuredURLs are the servers named in the environment.
func configuredURLs() []string {
	return strings.FieldsFunc(os.Getenv(urlsVariable), func(r rune) bool { return r == ',' || r == ' ' })
}
