"""The words by which transcripts and prompts label who speaks, in many languages; all small letters."""

from __future__ import annotations

from typing import Final

_SPEAKERS: Final = {
    "en": "system developer assistant user human model ai bot agent tool function instruction instructions admin "
    "administrator",
    "de": "benutzer nutzer anwender assistent assistentin entwickler modell werkzeug anweisung anweisungen mensch",
    "fr": "système utilisateur utilisatrice assistante développeur développeuse modèle outil consigne consignes humain",
    "es": "sistema usuario usuaria asistente desarrollador desarrolladora modelo herramienta instrucción "
    "instrucciones humano",
    "pt": "usuário utilizador assistente desenvolvedor programador ferramenta instrução instruções",
    "it": "utente sviluppatore sviluppatrice modello strumento istruzione istruzioni umano",
    "nl": "systeem gebruiker ontwikkelaar hulpmiddel instructie instructies mens",
    "nordic": "användare bruger bruker utvecklare udvikler utvikler verktyg værktøj verktøy instruktion instruktioner "
    "järjestelmä käyttäjä avustaja kehittäjä työkalu ohje kerfi notandi",
    "pl": "użytkownik asystent deweloper programista narzędzie instrukcja instrukcje człowiek",
    "cs": "systém uživatel vývojář nástroj pokyn pokyny člověk používateľ",
    "hu": "rendszer felhasználó asszisztens fejlesztő eszköz utasítás",
    "ro": "utilizator asistent dezvoltator instrument instrucțiune instrucțiuni",
    "tr": "sistem kullanıcı asistan geliştirici araç talimat insan",
    "id": "pengguna asisten pengembang alat instruksi",
    "sw": "mfumo mtumiaji msaidizi",
    "ru": "система пользователь ассистент помощник разработчик модель инструмент инструкция инструкции человек",
    "uk": "користувач асистент помічник розробник інструмент інструкція людина",
    "bg": "потребител асистент разработчик",
    "el": "σύστημα χρήστης βοηθός προγραμματιστής μοντέλο εργαλείο οδηγίες άνθρωπος",
    "he": "מערכת משתמש עוזר מפתח מודל כלי הוראות",
    "ar": "النظام نظام المستخدم مستخدم المساعد مساعد المطور مطور النموذج الأداة أداة التعليمات تعليمات",
    "fa": "سیستم سامانه کاربر دستیار توسعه‌دهنده ابزار دستورالعمل",
    "hi": "सिस्टम प्रणाली उपयोगकर्ता सहायक डेवलपर मॉडल उपकरण निर्देश",
    "bn": "সিস্টেম ব্যবহারকারী সহকারী ডেভেলপার নির্দেশ",
    "ta": "அமைப்பு பயனர் உதவியாளர்",
    "th": "ระบบ ผู้ใช้ ผู้ช่วย นักพัฒนา โมเดล เครื่องมือ คำสั่ง",
    "zh": "系统 系統 系统提示 系統提示 系统消息 系統訊息 系统指令 用户 用戶 使用者 助手 助理 开发者 開發者 开发人员 "
    "模型 工具 函数 指令 指示 提示 人类 人類 管理员 管理員",
    "ja": "システム システムプロンプト システムメッセージ ユーザー ユーザ 利用者 アシスタント 開発者 モデル ツール "
    "関数 プロンプト 人間 管理者",
    "ko": "시스템 시스템프롬프트 사용자 유저 어시스턴트 도우미 개발자 모델 도구 "
    "함수 지시 지시사항 명령 프롬프트 인간 관리자",
}
# Roles of two words.
_PHRASES: Final = (
    "hệ thống, người dùng, trợ lý, nhà phát triển, công cụ, chỉ dẫn, vai trò, 시스템 프롬프트, "
    "시스템 메시지, mensaje del sistema, message système, mensagem do sistema, messaggio di sistema, systemnachricht, "
    "системное сообщение, системный промпт, رسالة النظام"
)
# How agents that think aloud label their steps.
_STEPS: Final = """
    observation thought action answer prompt beobachtung gedanke aktion antwort pensée réponse observación pensamiento
    acción respuesta observação ação pensamento resposta osservazione pensiero azione risposta observatie gedachte actie
    antwoord obserwacja myśl akcja pozorování megfigyelés observație gözlem düşünce eylem pengamatan наблюдение мысль
    действие ответ спостереження παρατήρηση תצפית ملاحظة مشاهده अवलोकन 观察 觀察 思考 行动 行動 回答 観察 관찰
"""
SPEAKERS: Final = frozenset(word for line in _SPEAKERS.values() for word in line.split()) | frozenset(
    phrase.strip() for phrase in _PHRASES.split(",")
)
STEPS: Final = frozenset((*_STEPS.split(), "action input", "final answer"))
