"""A small file in the form of LoCoMo's."""

from typing import Any


def make_conversations() -> list[dict[str, Any]]:
    """Two conversations in the form of locomo10.json, with the faults that the published file has."""
    garden = {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ines",
            "speaker_b": "Tomas",
            "session_2_date_time": "9:05 am on 3 June, 2023",
            "session_2": [
                {"speaker": "Tomas", "dia_id": "D2:1", "text": "My tomatoes have finally ripened."},
                {"speaker": "Ines", "dia_id": "D2:02", "text": "Lovely! I adopted a greyhound called Pixel."},
            ],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ines", "dia_id": "D1:1", "text": "I start at the observatory on Monday."},
                {
                    "speaker": "Tomas",
                    "img_url": ["https://example.com/1.jpg"],
                    "blip_caption": "a photo of a wooden canoe",
                    "query": "canoe",
                    "dia_id": "D1:2",
                    "text": "Look what I built over the winter!",
                },
                {"speaker": "Ines", "dia_id": "D1:3", "text": ""},
            ],
            "session_3_date_time": "4:00 pm on 9 June, 2023",
        },
        "qa": [
            {"question": "Where does Ines work?", "answer": "observatory", "evidence": ["D1:1"], "category": 4},
            {
                "question": "What did Tomas build and grow?",
                "answer": "canoe, tomatoes",
                "evidence": ["D1:2; D2:1"],
                "category": 1,
            },
            {"question": "When was the greyhound adopted?", "answer": 2023, "evidence": ["D:2:2"], "category": 2},
            {"question": "Would Ines like comets?", "answer": "yes", "evidence": [], "category": 3},
            {"question": "What is far away?", "answer": "x", "evidence": ["D9:1"], "category": 4},
            {"question": "Why?", "answer": "x", "evidence": ["D"], "category": 4},
            {
                "question": "Which boat did Ines build?",
                "adversarial_answer": "a canoe",
                "evidence": ["D1:2"],
                "category": 5,
            },
        ],
        "event_summary": {},
        "observation": {},
        "session_summary": {},
    }
    music = {
        "sample_id": "conv-2",
        "conversation": {
            "session_1_date_time": "7:30 pm on 1 July, 2023",
            "session_1": [{"speaker": "Ada", "dia_id": "D1:1", "text": "I play the cello on Thursdays."}],
        },
        "qa": [
            {
                "question": "Who plays the cello on Thursdays?",
                "answer": "Ada",
                "evidence": ["D1:1 D1:9 D1:1"],
                "category": 4,
            }
        ],
    }
    return [garden, music]
