package redisbroker

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// deadAfter is how many times MinIdle a consumer must be silent before it counts as dead.
const deadAfter = 10

// tidyText is a script that deletes consumers of a group without pending messages: the consumer with a given name, and consumers
// that have been silent for long. The group loses the pending messages of a deleted consumer, so the check and the deletion
// must be one atomic step.
const tidyText = `
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
	local of = {}
	for i = 1, #consumer, 2 do of[consumer[i]] = consumer[i + 1] end
	if of['pending'] == 0 and (of['name'] == ARGV[2] or of['idle'] > tonumber(ARGV[3])) then
		redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], of['name'])
	end
end
return 0`

// trimText is a script that deletes messages that are older than a given time, if every group has acknowledged them and all earlier
// messages. The last message that a group has received stays. Without groups, nothing is deleted.
const trimText = `
local function number(id)
	local ms, seq = string.match(id, '(%d+)-(%d+)')
	return tonumber(ms), tonumber(seq)
end
local groups = redis.call('XINFO', 'GROUPS', KEYS[1])
if #groups == 0 then return 0 end
local first = ARGV[1] .. '-0'
local function keep(id)
	local ms, seq = number(id)
	local firstMS, firstSeq = number(first)
	if ms < firstMS or ms == firstMS and seq < firstSeq then first = id end
end
for _, group in ipairs(groups) do
	local of = {}
	for i = 1, #group, 2 do of[group[i]] = group[i + 1] end
	keep(of['last-delivered-id'])
	if of['pending'] > 0 then keep(redis.call('XPENDING', KEYS[1], of['name'])[2]) end
end
return redis.call('XTRIM', KEYS[1], 'MINID', '~', first)`

var tidyScript, trimScript = redis.NewScript(tidyText), redis.NewScript(trimText)

// tidy deletes consumers without pending messages: the consumer with this name, and consumers of dead processes. If Keep is set,
// it also deletes old messages.
func (s *stream) tidy(ctx context.Context, name string) error {
	silent := s.cfg.MinIdle * deadAfter
	err := tidyScript.Run(ctx, s.rdb, []string{s.stream}, s.cfg.Group, name, silent.Milliseconds()).Err()
	if s.cfg.Keep > 0 {
		before := time.Now().Add(-s.cfg.Keep).UnixMilli()
		err = errors.Join(err, trimScript.Run(ctx, s.rdb, []string{s.stream}, before).Err())
	}
	return err
}
