package kafkabroker

import (
	"context"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncelib/once/message"
)

// These are names of settings of a topic.
const (
	minInSync       = "min.insync.replicas"
	uncleanElection = "unclean.leader.election.enable"
	maxMessageBytes = "max.message.bytes"
)

// Check reads the settings of the client and of the topics. Check returns one sentence for each setting that endangers a promise of an outbox, and
// an error if Check fails to read the settings.
func Check(ctx context.Context, client *kgo.Client, topics ...string) ([]string, error) {
	var findings []string
	if !waitsForAll(client) {
		findings = append(findings, errAcks.Error())
	}
	if len(topics) == 0 { // without names, Kafka would return all topics
		return findings, nil
	}
	metadata := kmsg.NewPtrMetadataRequest()
	settings := kmsg.NewPtrDescribeConfigsRequest()
	for _, topic := range topics {
		asked := kmsg.NewMetadataRequestTopic()
		asked.Topic = kmsg.StringPtr(topic)
		metadata.Topics = append(metadata.Topics, asked)
	}
	found, err := metadata.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("kafkabroker: read the list of topics: %w", err)
	}
	for _, topic := range found.Topics {
		name := *topic.Topic
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			findings = append(findings, fmt.Sprintf("Topic %s cannot be used, so messages for it wait in the outbox: %v. Try: create the topic", name, err))
			continue
		}
		if replicas := fewestReplicas(topic.Partitions); replicas < 2 {
			findings = append(findings, fmt.Sprintf("Topic %s has one replica: the loss of one disk loses its messages. Try: three replicas", name))
		}
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, name
		resource.ConfigNames = []string{minInSync, uncleanElection, maxMessageBytes}
		settings.Resources = append(settings.Resources, resource)
	}
	if len(settings.Resources) == 0 {
		return findings, nil
	}
	// Several brokers may answer, each for a part of the topics.
	for _, shard := range client.RequestSharded(ctx, settings) {
		if shard.Err != nil {
			return nil, fmt.Errorf("kafkabroker: read the settings of the topics: %w", shard.Err)
		}
		described, ok := shard.Resp.(*kmsg.DescribeConfigsResponse)
		if !ok {
			continue
		}
		for _, topic := range described.Resources {
			if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
				return nil, fmt.Errorf("kafkabroker: read the settings of topic %s: %w", topic.ResourceName, err)
			}
			findings = append(findings, checkTopic(&topic)...)
		}
	}
	return findings, nil
}

// fewestReplicas returns the number of replicas of the partition with the fewest.
func fewestReplicas(partitions []kmsg.MetadataResponseTopicPartition) int {
	fewest := 0
	for i, p := range partitions {
		if i == 0 || len(p.Replicas) < fewest {
			fewest = len(p.Replicas)
		}
	}
	return fewest
}

func checkTopic(topic *kmsg.DescribeConfigsResponseResource) (findings []string) {
	for _, setting := range topic.Configs {
		// A broker may hide values of settings, and a hidden value is not reported.
		if setting.Value == nil {
			continue
		}
		number, err := strconv.Atoi(*setting.Value)
		switch isNumber := err == nil; {
		case setting.Name == minInSync && isNumber && number < 2:
			findings = append(findings, fmt.Sprintf("Topic %s confirms a record when a single broker has stored it: the loss of that broker loses the record. Try: min.insync.replicas=2", topic.ResourceName))
		case setting.Name == uncleanElection && *setting.Value == "true":
			findings = append(findings, fmt.Sprintf("Topic %s may lose confirmed records when its leader fails, because a replica without them may become the leader. Try: unclean.leader.election.enable=false", topic.ResourceName))
		case setting.Name == maxMessageBytes && isNumber && number < message.MaxPayload+message.MaxHeaders:
			findings = append(findings, fmt.Sprintf("Topic %s refuses records larger than %d bytes; such a message and all later messages of its key would not be delivered. Try: max.message.bytes=2000000 and kgo.ProducerBatchMaxBytes, or a smaller MaxPayload of the outbox", topic.ResourceName, number))
		}
	}
	return findings
}
